"""Builders, strategies and comparisons that tests import; nothing here is collected."""
