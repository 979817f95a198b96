"""Cycles of a camera's front end without running it.

The table (camera_costs.json) has for each core and C function the cycles of a pixel of a row, of a row, and of a
picture's lines; `benchmarks/camera_costs.py` writes it from what was measured on the emulated boards.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cortado.base.camera import Camera
from cortado.base.target import CortexMTargetConfig

TABLE = Path(__file__).parent / "camera_costs.json"


@cache
def known_cycles() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """By core and function."""
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found["cores"]


def counts_of(camera: Camera) -> dict[str, int]:
    """What is done for one picture: pixels of rows, rows, lines."""
    return {
        "pixels": camera.passes * camera.resize.width,
        "passes": camera.passes,
        "lines": camera.size.height,
    }


def front_end_cycles(target: CortexMTargetConfig, function: str, camera: Camera) -> int | None:
    """For one picture; None where nothing was measured: a core without some of its instructions, or any core."""
    terms = known_cycles().get(target.cpu.value, {}).get(function)
    if terms is None or target.target_string != target.cpu.value:
        return None
    return round(sum(terms[name] * count for name, count in counts_of(camera).items()))
