"""The part of report.json on weights, where int4 was asked for."""

from typing import Annotated

from cortado.base.codec import Within, json_class, key

_Number = Annotated[int, Within("an integer from 0 to 2^53-1", 0, 2**53 - 1)]


@json_class
class WeightsReport:
    """The weights of a layer, in a compile that asked for int4."""

    layer: str = key("its name")
    module: str = key("where in the model it comes from")
    element: str = key("int4 or int8")
    group: _Number = key("int4 weights that have a factor of their own; 0: one factor for each output channel")
    saved_bytes: _Number = key("flash that its weights take less than as int8")
    noise: float | None = key("of --weights auto: the power it adds to the outputs, beside theirs")
    why: str = key("why it has int8 weights, or int4 ones")
