"""A Unity player without Unity: small worlds that speak communicator 1.5.0 exactly as a build does.

`python -m fakeunity SCENE --mlagents-port N` is one player process; `fakeunity.memory.open_player` is the same player
without process and socket. Importing this package imports nothing else.
"""
