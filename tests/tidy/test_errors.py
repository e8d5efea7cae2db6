"""Every exception's name ends in Error, so that none is taken for a message between actors."""

import ast

from tests.tidy.sources import PACKAGES, name_of, python_files, tree_of

OUTSIDE_ROOTS = frozenset({"BaseException", "Exception", "ExceptionGroup", "KeyboardInterrupt", "SystemExit"})


def is_exception(node: ast.ClassDef) -> bool:
    """Whether a base says so: by convention all exceptions but the roots end in Error."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    return bool(bases & OUTSIDE_ROOTS) or any(base.endswith("Error") for base in bases)


def badly_named(tree: ast.Module) -> list[str]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and is_exception(node)]
    return [node.name for node in found if not node.name.endswith("Error")]


def test_exceptions_end_in_error() -> None:
    faults = [f"{name_of(path)}: {name}" for path in python_files(*PACKAGES) for name in badly_named(tree_of(path))]
    assert not faults


def test_an_exception_without_error_in_its_name_is_found() -> None:
    heads = ["Lost(errors.PlayerError)", "Gone(Exception)", "FineError(Lost)", "Row(Base)"]
    assert badly_named(ast.parse("".join(f"class {head}: ...\n" for head in heads))) == ["Lost", "Gone"]
