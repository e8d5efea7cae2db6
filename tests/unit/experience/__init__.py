"""Unit tests of runtime.experience."""
