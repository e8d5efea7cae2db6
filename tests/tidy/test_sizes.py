"""Modules, functions and signatures stay small: it is the tail that hurts, not the median."""

import ast

from tests.tidy.sources import name_of, python_files, tree_of

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
POSITIONAL_PARAMETERS_MAX = 5

Function = ast.FunctionDef | ast.AsyncFunctionDef


def positional_count(function: Function) -> int:
    """Positional parameters, the object or class of a method aside; keyword-only ones are free."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (1 if names[:1] in (["self"], ["cls"]) else 0)


def line_count(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_modules_fit_on_a_few_screens() -> None:
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert sizes
    faults = [f"{name}: {lines} lines" for name, lines in sizes.items() if lines > MODULE_LINES_MAX]
    assert not faults, f"more than {MODULE_LINES_MAX} lines, pull a pure part out:\n" + "\n".join(faults)


def test_functions_fit_on_a_screen() -> None:
    faults = [
        f"{name_of(path)}:{node.lineno} {node.name}: {line_count(node)} lines"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function) and line_count(node) > FUNCTION_LINES_MAX
    ]
    assert not faults, f"more than {FUNCTION_LINES_MAX} lines, pull a pure part out:\n" + "\n".join(faults)


def test_signatures_have_few_positional_parameters() -> None:
    faults = [
        f"{name_of(path)}:{node.lineno} {node.name}: {positional_count(node)} positional parameters"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function) and positional_count(node) > POSITIONAL_PARAMETERS_MAX
    ]
    limit = f"more than {POSITIONAL_PARAMETERS_MAX} positional parameters, make some keyword-only"
    assert not faults, f"{limit}:\n" + "\n".join(faults)


def test_the_count_leaves_out_self_and_keyword_only_parameters() -> None:
    (method,) = ast.parse("def f(self, a, /, b, *rest, c, d=1, **others):\n    return\n").body
    assert isinstance(method, ast.FunctionDef)
    assert (positional_count(method), line_count(method)) == (2, 2)
