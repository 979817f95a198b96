"""The base of all passes, and what they are given."""

import inspect
from dataclasses import dataclass
from typing import ClassVar, Self

from torch.export import ExportedProgram

from cortado.base.target import CortexMTargetConfig
from cortado.ir.passes import GraphPass, Level
from cortado.options import InputLayout, LinearWeights
from cortado.passes.verify import RULES


@dataclass(frozen=True)
class PassContext:
    """Context of a pass beside the graph: the program, what it is compiled for, and the user's choices."""

    exported_program: ExportedProgram
    target_config: CortexMTargetConfig
    linear: LinearWeights = LinearWeights.PER_CHANNEL
    allow_float: bool = False
    input_layout: InputLayout = InputLayout.MODEL
    codes_in_floats: bool = False  # weights of layers in float32 are int8
    stream: bool = False  # the C bundle is for an endless stream of rows


class CortexMPass(GraphPass):
    """One rewrite of a quantized or lowered graph."""

    rules = RULES

    @classmethod
    def made(cls, context: PassContext) -> Self:
        """The instance that the manager runs.

        Passes that are written for ExecuTorch declare `exported_program` or `target_config` in their __init__.
        """
        given = {"exported_program": context.exported_program, "target_config": context.target_config}
        declared = inspect.signature(cls).parameters
        return cls(**{name: value for name, value in given.items() if name in declared})


class ContextPass(CortexMPass):
    """A pass that is made with its context, as all of the pipeline are."""

    def __init__(self, context: PassContext) -> None:
        self.context = context
        self.program = context.exported_program

    @classmethod
    def made(cls, context: PassContext) -> Self:
        return cls(context)


class LoweredPass(ContextPass):
    """A pass that makes one lowered graph of another."""

    level_before: ClassVar[Level] = Level.LOWERED
    level_after: ClassVar[Level] = Level.LOWERED
