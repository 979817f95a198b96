"""Types of operators' parameters, by which tests draw them."""

from enum import Enum
from typing import Annotated


class NumberRole(Enum):
    """Numbers of a call that follow from the elements of the operands and of the result."""

    ZERO_POINT = "zero point of the operands"
    OFFSET = "minus the zero point of the operands"
    OUT_ZERO_POINT = "zero point of the result"
    LOW = "least code of the result"
    HIGH = "largest code of the result"
    MULTIPLIER = "fraction of a factor, with 31 bits"


InZeroPoint = Annotated[int, NumberRole.ZERO_POINT]
InOffset = Annotated[int, NumberRole.OFFSET]
OutZeroPoint = Annotated[int, NumberRole.OUT_ZERO_POINT]
Low = Annotated[int, NumberRole.LOW]
High = Annotated[int, NumberRole.HIGH]
Multiplier = Annotated[int, NumberRole.MULTIPLIER]
