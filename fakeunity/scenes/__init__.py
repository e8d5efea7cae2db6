"""Worlds: one small file per scene, pure logic. `catalogue` lists them; copy `basic.py` to write one of your own."""
