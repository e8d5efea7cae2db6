"""Tests that run for long."""
