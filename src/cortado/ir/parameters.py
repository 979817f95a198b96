"""Types of operators' parameters: what a number of a call means, from which tests draw it."""

from enum import Enum
from typing import Annotated


class Meaning(Enum):
    """What a number of a call is; all follow from the elements of the operands and of the result."""

    ZERO_POINT = "zero point of the operands"
    OFFSET = "minus the zero point of the operands"
    OUT_ZERO_POINT = "zero point of the result"
    LOW = "least code of the result"
    HIGH = "largest code of the result"
    MULTIPLIER = "fraction of a factor, with 31 bits"


ZeroPoint = Annotated[int, Meaning.ZERO_POINT]
InOffset = Annotated[int, Meaning.OFFSET]
OutZeroPoint = Annotated[int, Meaning.OUT_ZERO_POINT]
Low = Annotated[int, Meaning.LOW]
High = Annotated[int, Meaning.HIGH]
Multiplier = Annotated[int, Meaning.MULTIPLIER]
