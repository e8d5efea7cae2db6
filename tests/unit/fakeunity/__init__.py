"""Tests of the fake player that need no process and no socket."""
