"""The purpose of a piece of code, from its instructions and its function."""

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from cortado.timing.instructions import Instruction, Kind, by_function


class Part(Enum):
    """Parts of a network's work."""

    PRODUCTS = "products"  # multiplying and summing, with the loads for it
    REQUANTIZE = "requantization"  # sums to int8, and storing them
    PACKING = "packing"  # reordering inputs for the products
    ROWS = "row loop"  # choosing the next row and step
    REST = "rest"  # set-up, pools, elementwise operators, tables and the like


# The row loop, and the functions of a bundle that call kernels.
_ROWS = re.compile(
    r"call_|cortado_(run|reset)_stage|cortado_push_row|row_|advance|ready|reset|.*_(run|push)$|(?!cortado_).*_row$"
)
# Functions that arrange windows and pixels for those that multiply.
_PACKING = re.compile(
    r"cortado_(conv2d|conv1x1|transpose_conv2d)(_lanes)?_s8__|cortado_conv_expand|cortado_conv_rows|cortado_conv_tile_pack"
    r"|(window|gather|put|lay_out|lay_out_pair|copy|copy_taps|expand|pack)(\.|$)"
)
# Functions that multiply inputs by weights; other functions multiply only scales and addresses.
_KERNELS = re.compile(
    r"cortado_.*(conv|depthwise|linear|matmul|taps|dot|_units)|tile|add_products|add_taps|multiply_add"
)
_PRODUCTS = re.compile(r"smla|smua|smlal|umlal|mla|vmla|vml|vmul|mul")
_SCALES = re.compile(r"smmul|smull|vqr?dmulh|adc")
_JUMPS = frozenset(
    {
        Kind.BRANCH,
        Kind.CALL,
        Kind.JUMP,
        Kind.TABLE_JUMP,
        Kind.LOOP_START,
        Kind.LOOP_END,
        Kind.LOAD_MANY,
    }
)


def parts_of(code: Mapping[int, Instruction]) -> dict[int, Part]:
    """Maps the address of each instruction to its part."""
    found: dict[int, Part] = {}
    for name, instructions in by_function(code).items():
        fixed = Part.ROWS if _ROWS.match(name) else Part.PACKING if _PACKING.match(name) else None
        if fixed is not None:
            found |= dict.fromkeys((one.address for one in instructions), fixed)
            continue
        multiplies = _KERNELS.match(name) is not None
        other = Part.REST
        for piece in _pieces(instructions):
            parts = _parts_of_piece(piece, multiplies, other)
            # The code after a requantization clamps and stores its results, until the next products.
            last = parts[piece[-1].address]
            other = Part.REQUANTIZE if last is Part.REQUANTIZE else Part.REST
            found |= parts
    return found


def _pieces(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Splits code into basic blocks: without a jump into them or out of them."""
    targets = {one.target for one in instructions if one.target is not None}
    pieces: list[list[Instruction]] = [[]]
    for one in instructions:
        if one.address in targets:
            pieces.append([])
        pieces[-1].append(one)
        if one.kind in _JUMPS and (one.kind is not Kind.LOAD_MANY or one.writes_pc):
            pieces.append([])
    return [piece for piece in pieces if piece]


def _parts_of_piece(piece: Sequence[Instruction], multiplies: bool, other: Part) -> dict[int, Part]:
    """Classifies the instructions of a basic block. Products come before their scaling, which on small cores consists
    of multiplies too."""
    scales = [at for at, one in enumerate(piece) if _SCALES.match(one.name)]
    products = [
        at for at, one in enumerate(piece) if multiplies and _PRODUCTS.match(one.name) and not _SCALES.match(one.name)
    ]
    if not scales:
        part = Part.PRODUCTS if products else other
        return dict.fromkeys((one.address for one in piece), part)
    by_hand = all(piece[at].name.startswith("mul") for at in products)
    last = -1 if by_hand else max((at for at in products if at < scales[0]), default=-1)
    return {one.address: Part.PRODUCTS if at <= last else Part.REQUANTIZE for at, one in enumerate(piece)}
