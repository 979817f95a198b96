"""--saturation: which tensors reach the ends of their ranges, for people and for programs."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cortado.cli.tables import in_columns

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.base.arrays import ArrayType
    from cortado.scoring.saturation import Saturation

SHOWN = 12  # tensors


def saturation_of(
    arguments: argparse.Namespace, artifact: "Artifact", samples: "Sequence[Sequence[ArrayType]]"
) -> "tuple[Saturation, ...] | None":
    """None if it was not asked for."""
    if not arguments.saturation:
        return None
    from cortado.scoring.saturation import saturation

    return saturation(artifact, samples, arguments.sequence)


def saturation_json(found: "Sequence[Saturation] | None") -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "saturation": [
            {
                "tensor": one.tensor,
                "module": one.module or None,
                "values": one.values,
                "saturated": one.saturated,
                "samples": one.samples,
            }
            for one in found
        ]
    }


def saturation_lines(found: "Sequence[Saturation] | None") -> list[str]:
    if found is None:
        return []
    if not found:
        return ["no value is at an end of its range"]
    rows = [
        (one.tensor, one.module or "-", f"{one.part:.4%}", f"{one.saturated:,}", f"{one.samples:,}")
        for one in found[:SHOWN]
    ]
    more = [f"{len(found) - SHOWN} more tensors saturate less often"] if len(found) > SHOWN else []
    return [*in_columns([("TENSOR", "MODULE", "AT AN END", "VALUES", "SAMPLES"), *rows]), *more]
