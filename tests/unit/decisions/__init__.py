"""The decision machines, one module each: every branch of what they decide."""
