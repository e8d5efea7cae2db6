"""Tests on real actor systems."""
