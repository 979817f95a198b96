"""Compilers, emulated boards, and the execution of compiled models."""
