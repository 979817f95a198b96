"""Cycles of a camera's front end without running it.

The table (camera_costs.json) has for each core and C function the cycles of a pixel of a row that is made, of one that
is only kept, and of a call; `benchmarks/camera_costs.py` writes it from what was measured on the emulated boards. What
MODEL_take_line itself takes is the same on all cores within a few percent of the whole.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cortado.base.camera import Camera
from cortado.base.target import CortexMTargetConfig

TABLE = Path(__file__).parent / "camera_costs.json"
LINE_CYCLES = 60  # of MODEL_take_line, for a line and for a row


@cache
def known_cycles() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """By core and function."""
    cores: dict[str, Any] = json.loads(TABLE.read_text())["cores"]
    return cores


def front_end_cycles(target: CortexMTargetConfig, function: str, camera: Camera) -> int | None:
    """For one picture; None where nothing was measured: a core without some of its instructions, or any core."""
    terms = known_cycles().get(target.cpu.value, {}).get(function)
    if terms is None or target.target_string != target.cpu.value:
        return None
    rows, width = len(camera.rows), camera.resize.width
    kept = camera.passes - rows
    pixels = terms["pixel"] * rows + terms.get("kept", 0.0) * kept
    return round(pixels * width + terms["call"] * camera.passes + LINE_CYCLES * (camera.size.height + rows))
