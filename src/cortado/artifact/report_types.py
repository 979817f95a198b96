"""The numbers and names of report.json, and what is one."""

from typing import Annotated

from cortado.base.codec import Matching, Within
from cortado.base.names import NODE_NAME
from cortado.base.regions import REGION_NAME

_MOST = 2**53 - 1  # every JSON reader holds integers up to here exactly
Count = Annotated[int, Within("an integer from 0 to 2^53-1", 0, _MOST)]
Size = Annotated[int, Within("an integer from 1 to 2^53-1", 1, _MOST)]
ZeroPoint = Annotated[int, Within("an integer of 32 bits", -(2**31), 2**31 - 1)]
Scale = Annotated[float, Within("a number above 0", 0, above=True)]
NodeName = Annotated[str, Matching("the name of a node", NODE_NAME)]
OperatorName = Annotated[str, Matching("an operator, as in cortex_m::quantized_add", "[A-Za-z0-9_]+::[A-Za-z0-9_.]+")]
NetworkName = Annotated[str, Matching("the name of a network", NODE_NAME)]  # never a file, which would be run
ChipName = Annotated[str, Matching("the name of a chip", "[a-z0-9]+(-[a-z0-9]+)*")]
RegionName = Annotated[str, Matching("the name of a memory or a section", REGION_NAME)]
Shades = Annotated[str, Matching("hexadecimal digits", "[0-9a-f]*")]
Sha256 = Annotated[str, Matching("a SHA-256: 64 hexadecimal digits", "[0-9a-f]{64}")]
