"""Which tensors have how many bits, where measurement chose (--precision auto): a part of report.json."""

from cortado.base.codec import json_class, key


@json_class
class TensorPrecisionReport:
    """A tensor and its element."""

    tensor: str = key("its name in the graph, as --int16 takes it")
    module: str = key("the module that makes it; empty for an input")
    element: str = key("what its values are kept as: int8 or int16")
    why: str = key("what it gives for its bytes, or why there is no choice")


@json_class
class PrecisionReport:
    """The choice of --precision auto."""

    bar: str = key("what was to be reached, as the option was given")
    reached: str = key("what is reached, on the same data")
    int8: str = key("what int8 alone reaches")
    int8_arena_bytes: int = key("RAM of the C bundle with int8 alone")
    arena_bytes: int = key("RAM as chosen, for the target that the model was prepared for")
    tensors: tuple[TensorPrecisionReport, ...] = key("every tensor of real numbers")
