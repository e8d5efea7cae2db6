"""HTTP/2 as unary gRPC calls need it: bytes in, events and bytes out. No socket, no clock, nothing of this project."""
