"""Everything a random network is made of, by name: layers, movements, aten's own spellings, writes and views."""

from fuzz.calls import CALLS
from fuzz.layers import LAYERS
from fuzz.masks import MASKS
from fuzz.measures import MEASURES
from fuzz.movements import MOVEMENTS
from fuzz.positions import POSITIONS
from fuzz.recipe import Block
from fuzz.spelled import SPELLED
from fuzz.writes import WRITES

IN_C_ALONE = {*MASKS, *MEASURES, *POSITIONS, *SPELLED}  # no .pte has them
BLOCKS: dict[str, Block] = {**LAYERS, **MEASURES, **MOVEMENTS, **CALLS, **WRITES, **POSITIONS, **MASKS, **SPELLED}
