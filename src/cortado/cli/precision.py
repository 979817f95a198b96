"""The options of how many bits numbers have."""

import argparse

from cortado.cli.parsing import names, number, part
from cortado.options import Activations, Precision, Weights


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
        help="what weights of layers and tables take in the C bundle (default: int8). int4: half the "
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
        help="real tensors whose names, or those of their modules, match are int16, as in 'encoder.*'; may be repeated",
    )
    _auto_arguments(parser)


def _auto_arguments(parser: argparse.ArgumentParser) -> None:
    """Measurement chooses."""
    parser.add_argument(
        "--precision",
        choices=names(Precision),
        default="given",
        help="auto: tensors are int16 in the order of decibels gained for bytes and cycles, measured on the "
        "calibration data, until one of the next three holds (docs/precision.md); given (the default): as "
        "--activations, --state and --int16 say",
    )
    parser.add_argument(
        "--min-sqnr",
        type=number,
        metavar="DB",
        help="with --precision auto: decibels that the output that keeps least is to have, beside the model",
    )
    parser.add_argument(
        "--min-accuracy",
        type=part,
        metavar="PART",
        help="with --precision auto: the part of the --labelled samples that is to be classified right, as in "
        "0.92 or 92%%",
    )
    parser.add_argument(
        "--max-drop",
        type=part,
        metavar="PART",
        help="with --precision auto: by how much that part may be below the float model's, as in 0.5%%",
    )
    parser.add_argument(
        "--labelled",
        metavar="FILE",
        help="for --min-accuracy and --max-drop: an .npz file with the model's inputs, samples along the first "
        "dimension, and the number of the right class of each as 'labels'",
    )
