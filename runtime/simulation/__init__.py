"""The protocol under a seeded scheduler: the real decision machines, virtual time, faults, invariants, replay."""
