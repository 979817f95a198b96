"""A network as data: one block of bytes that firmware opens and runs."""
