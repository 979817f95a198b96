"""Compilers, emulated boards, and running what was compiled."""
