"""The C bundle."""
