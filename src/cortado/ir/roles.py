"""The quantization that a pattern asks for each of its tensors, and the roles of a call's numbers, by which tests draw
them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from cortado.base.element import INT8, Element
from cortado.base.numerics import QParams


@dataclass(frozen=True)
class Activation:
    """Real numbers with one scale, as codes of an element; None: of the tensor's own element."""

    element: Element | None


@dataclass(frozen=True)
class Mask(Activation):
    """Truth values as int8 codes 0 and 1, whatever the element of the call's real numbers."""

    element: Element | None = field(default=INT8, init=False)


@dataclass(frozen=True)
class Weight:
    """Symmetric codes with a scale for each output channel, never the lowest number of their element. `narrowest` is
    the element with the fewest bits that the operator has kernels for."""

    narrowest: Element


@dataclass(frozen=True)
class Bias:
    """int32, with scale = input scale x weight scale."""


Role = Activation | Weight | Bias  # how one tensor of a pattern is quantized


@dataclass(frozen=True)
class SharedWith:
    """The output keeps the quantization parameters of this argument (data movement, max pooling)."""

    argument: str


@dataclass(frozen=True)
class Joined:
    """The operator reads all operands in the output's quantization parameters (concatenation, minimum, maximum). An
    operand can have others; `lower` then requantizes it. Those in `besides` keep their own."""

    element: Element
    besides: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObservedWith:
    """The output shares one scale with this argument (with the first of a list), if it is given: both hold the same
    state at different times."""

    argument: str
    element: Element


@dataclass(frozen=True)
class Usually:
    """Default quantization parameters of the output (a sigmoid's), unless those from calibration are clearly finer."""

    qparams: QParams


@dataclass(frozen=True)
class Plain:
    """Integers without a scale: ids, positions, truth values."""


@dataclass(frozen=True)
class Quantization:
    """The roles of a pattern's arguments and output."""

    inputs: Mapping[str, Role]
    output: Activation | SharedWith | Joined | ObservedWith | Usually | Plain | QParams
    weight_axis: int = 0  # the dimension of the weights that holds the output channels
    channel_axis: int = 1  # the dimension of the output that holds the channels


# ---- numbers of a call -------------------------------------------------------------------------------------------


class NumberRole(Enum):
    """Numbers of a call that are constrained by the elements of its operands and result."""

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
