"""What each actor decides: pure machines without I/O, clock or actor library."""
