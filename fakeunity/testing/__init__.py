"""For tests of programs that train on Unity players: a pytest plugin, and what the scenes are worth."""
