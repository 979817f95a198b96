"""How the tensors of a pattern are quantized, which it asks of the quantizer, and what numbers of a call are, by which
tests draw them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from cortado.base.element import INT8, Element
from cortado.base.numerics import QParams


@dataclass(frozen=True)
class Activation:
    """Real numbers, all of one scale, as codes of an element; None: of whichever element the tensor has."""

    element: Element | None


@dataclass(frozen=True)
class Mask(Activation):
    """Truth values: int8 codes 0 and 1, whichever element the real numbers of the call have."""

    element: Element | None = field(default=INT8, init=False)


@dataclass(frozen=True)
class Weight:
    """Symmetric codes, of a scale per output channel, never the smallest number of their element. `narrowest` is the
    element with the fewest bits that the operator has kernels for."""

    narrowest: Element


@dataclass(frozen=True)
class Bias:
    """int32, scale = input scale x weight scale."""


Role = Activation | Weight | Bias  # how one tensor of a pattern is quantized


@dataclass(frozen=True)
class SharedWith:
    """The output keeps the quantization parameters of this argument (data movement, max pooling)."""

    argument: str


@dataclass(frozen=True)
class Joined:
    """The operator reads all operands in the output's quantization parameters (concatenation, minimum, maximum). Each
    may have others before; `lower` brings it to these. Those in `besides` keep their own."""

    element: Element
    besides: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObservedWith:
    """The output and this argument, of a list the first, hold the same kind of thing at different times (a state): one
    scale for both, where the argument is given."""

    argument: str
    element: Element


@dataclass(frozen=True)
class Usually:
    """The output has these quantization parameters (a sigmoid's), unless those of what calibration saw are clearly
    finer."""

    qparams: QParams


@dataclass(frozen=True)
class Plain:
    """The output holds integers as they are (ids, positions, truth values): they have no scale."""


@dataclass(frozen=True)
class Quantization:
    """The roles of a pattern's arguments and output."""

    inputs: Mapping[str, Role]
    output: Activation | SharedWith | Joined | ObservedWith | Usually | Plain | QParams
    weight_axis: int = 0  # of the output channels in the weights
    channel_axis: int = 1  # of the output channels in the output


# ---- numbers of a call -------------------------------------------------------------------------------------------


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
