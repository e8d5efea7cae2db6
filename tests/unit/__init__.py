"""Tests that take milliseconds; the folders mirror the packages."""
