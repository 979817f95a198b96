"""Arguments of a compile that say how many bits numbers have."""

import argparse

from cortado.cli.parsing import names
from cortado.options import Activations, Weights


def precision_arguments(parser: argparse.ArgumentParser) -> None:
    """How many bits numbers have."""
    parser.add_argument(
        "--activations",
        choices=names(Activations),
        default="int8",
        help="what real tensors are kept as (default: int8). int16, symmetric and with room for four times what "
        "calibration saw, is for the C bundle alone; weights stay int8",
    )
    parser.add_argument(
        "--state",
        choices=names(Activations),
        default="int16",
        help="what a buffer that is computed from itself is kept as, with the tensors of its loop (default: int16, for "
        "the C bundle alone; int8 is for the .pte too). Buffers that only delay are int8",
    )
    parser.add_argument(
        "--weights",
        choices=names(Weights),
        default="int8",
        help="what weights of convolutions and linear layers take in the C bundle (default: int8). int4: half the "
        "flash wherever a layer can have it; auto: where the outputs lose least, until --flash-budget holds",
    )
    parser.add_argument(
        "--weight-group",
        type=int,
        metavar="32",
        help="int4 weights with a factor for each 32 of them: more exact, a little larger (default: one for a channel)",
    )
    parser.add_argument(
        "--int16",
        action="append",
        default=[],
        metavar="REGEX",
        help="real tensors of modules whose names match are int16, as in 'encoder.*'; may be repeated",
    )
