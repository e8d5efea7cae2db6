"""A Unity player without Unity: small worlds that speak every communicator from API-8 to 1.5.0 as builds do.

`python -m fakeunity SCENE --mlagents-port N` is one player process; `fakeunity.memory.open_player` is the same player
without process and socket. Importing this package imports nothing else.
"""
