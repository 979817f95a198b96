"""The base classes of all passes, and their context."""

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
    """The context of a pass apart from the graph: the program, the target, and the user's choices."""

    exported_program: ExportedProgram
    target_config: CortexMTargetConfig
    linear: LinearWeights = LinearWeights.PER_CHANNEL
    allow_float: bool = False
    input_layout: InputLayout = InputLayout.MODEL
    codes_in_floats: bool = False  # weights of float32 layers are int8
    stream: bool = False  # the C bundle is for an endless stream of rows


class CortexMPass(GraphPass):
    """One rewrite of a quantized or lowered graph."""

    rules = RULES

    @classmethod
    def made(cls, context: PassContext) -> Self:
        """Builds the instance that the manager runs.

        Passes that are written for ExecuTorch declare `exported_program` or `target_config` in their __init__.
        """
        given = {"exported_program": context.exported_program, "target_config": context.target_config}
        declared = inspect.signature(cls).parameters
        return cls(**{name: value for name, value in given.items() if name in declared})


class ContextPass(CortexMPass):
    """A pass constructed from its context, as all passes of the pipeline are."""

    def __init__(self, context: PassContext) -> None:
        self.context = context
        self.program = context.exported_program

    @classmethod
    def made(cls, context: PassContext) -> Self:
        return cls(context)


class LoweredPass(ContextPass):
    """A pass from one lowered graph to another."""

    level_before: ClassVar[Level] = Level.LOWERED
    level_after: ClassVar[Level] = Level.LOWERED
