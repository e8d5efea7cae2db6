"""Tests of fakeunity and players over real gRPC."""
