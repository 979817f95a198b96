"""The command line."""

from cortado.cli.entry import main

__all__ = ["main"]
