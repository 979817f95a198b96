"""The Options of a compile, from its arguments."""

import argparse
from dataclasses import fields

from cortado.options import Options


def options_of(arguments: argparse.Namespace) -> Options:
    """An option of the command line is a field of Options, of the same name and with the same texts."""
    return Options(**{one.name: getattr(arguments, one.name) for one in fields(Options)})
