"""Tests of the run's settings."""
