"""Tests of runtime, trainers and fakeunity; README.md tells which directory is for which kind."""
