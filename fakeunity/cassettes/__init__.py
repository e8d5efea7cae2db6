"""Recorded conversations between a trainer and a player: written by the one, played again in place of the other."""
