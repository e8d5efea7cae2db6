"""Fuzzing of what players and files can make us read."""
