"""Tests of the run's results."""
