"""Unit tests of runtime.acting."""
