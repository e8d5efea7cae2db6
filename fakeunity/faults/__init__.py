"""Faults on order: what a player does wrong, when, and for whom; see `plan` for the words."""
