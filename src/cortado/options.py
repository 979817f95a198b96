"""What a user may choose beside the target."""

import re
from dataclasses import dataclass

from cortado.errors import CortadoError
from cortado.op import LinearWeights
from cortado.program import Border
from cortado.schedule import Optimize


@dataclass(frozen=True)
class Options:
    """How to compile. Budgets are in bytes; None means no limit."""

    optimize: Optimize = Optimize.BALANCED
    border: Border = Border.INT8
    linear: LinearWeights = LinearWeights.PER_CHANNEL
    bundleio: bool = False  # also a .bpte
    etrecord: bool = False  # also an ETRecord
    ram_budget: int | None = None
    flash_budget: int | None = None


_UNITS = {"": 1, "K": 1024, "M": 1024 * 1024}


def parse_bytes(text: str) -> int:
    """'262144', '256K', '1M', with or without a B behind."""
    found = re.fullmatch(r"\s*(\d+)\s*([KM]?)(?:I?B)?\s*", text.upper())
    if found is None:
        raise CortadoError(f"'{text}' is not a size; expected bytes, as in 262144, 256K or 1M")
    return int(found.group(1)) * _UNITS[found.group(2)]
