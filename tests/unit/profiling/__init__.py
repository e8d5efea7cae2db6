"""Tests of `runtime.profiling`."""
