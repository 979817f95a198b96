"""How often the loops of LSTM, GRU and RNN kernels run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cortado.base.target import Core
from cortado.ir.work import Calls, Quantities, Work, nested
from cortado.ops._narrow_packing import CHUNK
from cortado.ops._work import VECTOR


@dataclass(frozen=True)
class LayerSize:
    """How large a layer is."""

    sequences: int
    steps: int
    inputs: int
    units: int


_UNITS = {"calls*sequences": "units starts*units", "all_steps": "units units*gives_cells units*relu"}
_GROUPS = {
    Core.MVE: "path_vectors",
    Core.DSP: "path_fours path_eights path_some path_odd path_lasts",
    Core.SMALL: "path_products path_twos path_fours path_lasts",
    Core.LONG: "path_products path_twos path_fours path_lasts",
    Core.PORTABLE: "path_products",
}


_NARROW = {
    Core.MVE: "path_vectors path_chunks",
    Core.DSP: "path_fours path_odd path_lasts path_chunks",
}
_NARROW_PAIRS = "path_products path_twos path_sixteens path_chunks"


def recurrent_work(
    core: Core, layer: LayerSize, *, together: int, starts: bool, more: Mapping[str, int], run: int | None
) -> Work:
    """Units whose gates are made together, each group of them in each step; the products of both paths of a gate, input
    and state, for which one function is called: twos, fours, eights of the fours, vectors of them, whether there are
    fours, whether some are in no four, and how many."""
    paths = (layer.inputs, layer.units)
    fours, lasts = [products // 4 for products in paths], [products % 4 for products in paths]
    sizes = {
        "sequences": layer.sequences,
        "units": layer.units,
        "starts": starts,
        "gives_cells": more.get("gives_cells", 0),
        "relu": more.get("relu", 0),
        "path_products": sum(paths),
        "path_twos": sum(math.ceil(products / 2) for products in paths),
        "path_fours": sum(fours),
        "path_eights": sum(math.ceil(four / 2) for four in fours),
        "path_vectors": sum(math.ceil(products / VECTOR) for products in paths),
        "path_some": sum(four > 0 for four in fours),
        "path_odd": sum(last > 0 for last in lasts),
        "path_lasts": sum(lasts),
        "path_sixteens": sum(math.ceil(products / 16) for products in paths),
        "path_chunks": sum(math.ceil(products / (run or CHUNK)) for products in paths),
    }
    groups = math.ceil(layer.units / together)
    inner = _GROUPS[core] if run is None else _NARROW.get(core, _NARROW_PAIRS)

    def quantities(calls: Calls) -> Quantities:
        steps = calls.calls * layer.sequences * layer.steps
        return {**sizes, "all_steps": steps, "unit_groups": steps * groups}

    return Work(nested({**_UNITS, "unit_groups": inner}), quantities)
