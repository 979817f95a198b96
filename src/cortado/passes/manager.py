"""CortexMPassManager: runs the pipeline, verifies around every pass, writes intermediates."""

import inspect
from collections.abc import Sequence
from pathlib import Path

from torch.export import ExportedProgram

from cortado.base.errors import CortadoError
from cortado.base.target import ANY, CortexMTargetConfig
from cortado.ir.passes import Level, run_pass
from cortado.options import InputLayout, LinearWeights
from cortado.passes.base import CortexMPass, PassContext
from cortado.passes.clean_up import CleanUp
from cortado.passes.constant_channels import ConstantChannels
from cortado.passes.dead_channels import DeadChannels
from cortado.passes.fold_qparams import FoldQParams, FuseActivations
from cortado.passes.frames import FramesAsRows
from cortado.passes.lower import Lower
from cortado.passes.move_transposes import MoveTransposes, NhwcInputs
from cortado.passes.signals import SignalsAsRows
from cortado.passes.time_windows import LastSteps, TimeWindows
from cortado.passes.updates import Updates

PIPELINE: tuple[type[CortexMPass], ...] = (
    NhwcInputs,  # for images with channels last, before anything depends on their layout
    FoldQParams,  # q/dq pairs become facts about tensors, so later passes see plain aten nodes
    FuseActivations,  # a relu or clamp after a kernel becomes its bounds, before kernels are chosen
    Lower,  # every aten node becomes calls of operators, layout changes written out
    MoveTransposes,  # layout changes meet and cancel, or sink to where they are cheap
    CleanUp,  # dead code must not reach the artifact
    DeadChannels,  # unneeded channels, once layouts are settled and constants are known
    ConstantChannels,  # remaining channels that would keep a layer off its fast kernel
    LastSteps,  # a recurrent layer of which only the last step is read keeps only that
    Updates,  # sums that update state, once no dead calls are left
    FramesAsRows,  # in a stream, once calls and layouts are settled: frames picked from samples come in hops
    SignalsAsRows,  # in a stream, once calls and layouts are settled: time becomes rows, whichever dimension it was
    TimeWindows,  # in a stream: calls that read all rows of a tensor at once read them one by one
)
TRIED = PIPELINE[: PIPELINE.index(Lower) + 1]
"""The passes that decide whether a model can be lowered."""


class CortexMPassManager:
    """Runs passes over an ExportedProgram. `passes` are classes; the manager instantiates those that apply."""

    def __init__(
        self,
        exported_program: ExportedProgram,
        passes: Sequence[type[CortexMPass]] | None = None,
        target_config: CortexMTargetConfig | None = None,
        intermediates: Path | None = None,
        linear: LinearWeights = LinearWeights.PER_CHANNEL,
        allow_float: bool = False,
        input_layout: InputLayout = InputLayout.MODEL,
        stream: bool = False,
        codes_in_floats: bool = False,
    ) -> None:
        if not isinstance(exported_program, ExportedProgram):
            raise CortadoError(
                f"CortexMPassManager needs an ExportedProgram, found {type(exported_program).__name__}; "
                "use torch.export.export(model, inputs) to make one"
            )
        self.exported_program = exported_program
        self.target_config = ANY if target_config is None else target_config
        self.intermediates = intermediates
        self.context = PassContext(
            exported_program, self.target_config, linear, allow_float, input_layout, codes_in_floats, stream
        )
        given = PIPELINE if passes is None else passes
        for item in given:
            if not (inspect.isclass(item) and issubclass(item, CortexMPass)):
                raise CortadoError(
                    f"passes must be subclasses of CortexMPass, not instances or anything else: found {item!r}; "
                    "the manager makes the instances itself"
                )
        self.passes = tuple(item for item in given if item.applies(self.context))

    def transform(self) -> ExportedProgram:
        """Runs every pass in order, in place, and returns the program."""
        verified: Level | None = None
        for number, cls in enumerate(self.passes, start=1):
            one = cls.made(self.context)
            verified = run_pass(self.exported_program, one, number, self.intermediates, verified)
        return self.exported_program
