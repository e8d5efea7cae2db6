"""The HTTP/2 that calls travel on."""
