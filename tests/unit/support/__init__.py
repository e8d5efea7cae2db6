"""Tests of the tests' own tools."""
