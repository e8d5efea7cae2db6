"""Tests that need a released ML-Agents client or trainer."""
