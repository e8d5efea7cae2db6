"""Every public module, class and function says what the caller gets; every test file says what it is about."""

import ast
from collections.abc import Iterator

from tests.tidy.sources import PACKAGES, name_of, python_files, tree_of

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
EXEMPTING_DECORATORS = frozenset({"overload", "override", "setter"})


def is_exempt(node: Definition) -> bool:
    """Private names, magic methods, and what repeats a documented definition."""
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return node.name.startswith("_") or bool(decorators & EXEMPTING_DECORATORS)


def public_definitions(scope: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Public classes, functions and methods with their dotted names; functions inside functions are private."""
    for node in scope.body:
        if not isinstance(node, Definition) or is_exempt(node):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public_definitions(node, f"{prefix}{node.name}.")


def test_public_names_have_docstrings() -> None:
    files = python_files(*PACKAGES)
    faults = [f"{name_of(path)}: the module" for path in files if not ast.get_docstring(tree_of(path))]
    faults += [
        f"{name_of(path)}:{node.lineno} {name}"
        for path in files
        for name, node in public_definitions(tree_of(path))
        if not ast.get_docstring(node)
    ]
    assert not faults, "without a docstring that states what the caller gets:\n" + "\n".join(faults)


def test_test_files_open_with_one_sentence() -> None:
    faults = []
    for path in python_files("tests"):
        if path.name == "__init__.py":
            continue
        sentence = (ast.get_docstring(tree_of(path)) or "").split("\n\n")[0]
        if not sentence.endswith(".") or len(sentence.split()) < 3:
            faults.append(f"{name_of(path)}: {sentence!r}")
    assert not faults, "the docstring of a test file opens with a sentence about its subject:\n" + "\n".join(faults)


def test_the_walk_finds_methods_and_spares_private_and_overriding_ones() -> None:
    source = """
class A:
    def seen(self): ...
    @override
    def spared(self): ...
    @value.setter
    def value(self, value): ...
    def _private(self): ...
async def also_seen():
    def inner(): ...
"""
    assert [name for name, _ in public_definitions(ast.parse(source))] == ["A", "A.seen", "also_seen"]
