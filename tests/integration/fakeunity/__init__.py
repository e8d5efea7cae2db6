"""The fake player as a process: gRPC, command line, installed files."""
