"""Checks of the code base itself: sizes, words, imports, docstrings and generated files."""
