"""Players: the processes that hold a world, and the wire they speak; imports nothing by itself."""
