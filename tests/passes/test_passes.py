"""The pass manager: what passes are given, what is refused, and that nothing broken gets past it."""

import copy
import inspect
import itertools
from collections.abc import Callable
from operator import getitem
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from cortado.api import Model, prepare
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError, Reject
from cortado.base.target import ANY, CortexMTargetConfig, from_target_string
from cortado.ir import matching
from cortado.ir.graph import output_node, taken_from
from cortado.ir.matching import MATCH, Match
from cortado.ir.op import operator_of, registry
from cortado.ir.passes import Level, print_graph
from cortado.ir.patched import late_code
from cortado.options import Artifacts, InputLayout, LinearWeights, Options
from cortado.passes import PIPELINE, ContextPass, CortexMPass, CortexMPassManager, PassContext
from cortado.passes.frames import FramesAsRows
from cortado.passes.move_transposes import NhwcInputs
from cortado.passes.signals import SignalsAsRows
from cortado.passes.time_windows import TimeWindows
from cortado.passes.updates import Updates
from helpers.single import Function, decibels, randn
from helpers.values import present

M4 = from_target_string("cortex-m4")
ASKED_FOR = {NhwcInputs, FramesAsRows, SignalsAsRows, TimeWindows}


class Quiet(CortexMPass):
    """Changes nothing."""

    name: ClassVar[str] = "quiet"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.QUANTIZED

    def run(self, module: GraphModule) -> bool:
        return False


# ---- what a pass is given -----------------------------------------------------------------------------------------


def test_passes_are_given_what_they_declare(tiny: Model) -> None:
    seen: dict[str, object] = {}

    class Nothing(Quiet):
        name: ClassVar[str] = "nothing"

        def __init__(self) -> None:
            seen["nothing"] = True

    class Program(Quiet):
        name: ClassVar[str] = "program"

        def __init__(self, exported_program: ExportedProgram) -> None:
            seen["program"] = exported_program

    class Target(Quiet):
        name: ClassVar[str] = "target"

        def __init__(self, target_config: CortexMTargetConfig) -> None:
            seen["target"] = target_config

    class Both(Quiet):
        name: ClassVar[str] = "both"

        def __init__(self, target_config: CortexMTargetConfig, exported_program: ExportedProgram) -> None:
            seen["both"] = (exported_program, target_config)

    class Everything(Quiet, ContextPass):
        name: ClassVar[str] = "everything"

        def run(self, module: GraphModule) -> bool:
            seen["everything"] = self.context
            return False

    program, per_tensor = tiny.quantized.program(), LinearWeights.PER_TENSOR
    passes: list[type[CortexMPass]] = [Nothing, Program, Target, Both, Everything]
    result = CortexMPassManager(program, passes, M4, linear=per_tensor, allow_float=True).transform()
    assert result is program
    context = PassContext(program, M4, per_tensor, allow_float=True)
    assert seen.pop("everything") == context
    assert seen == {"nothing": True, "program": program, "target": M4, "both": (program, M4)}


def test_defaults_are_the_pipeline_and_any(tiny: Model) -> None:
    manager = CortexMPassManager(tiny.quantized.program())
    assert manager.passes == tuple(cls for cls in PIPELINE if cls not in ASKED_FOR)
    assert manager.target_config == ANY


def test_what_is_asked_for_runs_in_its_place(tiny: Model) -> None:
    manager = CortexMPassManager(tiny.quantized.program(), input_layout=InputLayout.NHWC, stream=True)
    assert manager.passes == tuple(one for one in PIPELINE if one is not Updates)


def test_an_empty_list_of_passes_is_not_the_pipeline(tiny: Model) -> None:
    program = tiny.quantized.program()
    before = print_graph(program)
    assert print_graph(CortexMPassManager(program, []).transform()) == before


# ---- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thing", [None, "model", torch.nn.Linear(1, 1), torch.fx.Graph()], ids=lambda x: type(x).__name__
)
def test_only_an_exported_program_is_taken(thing: object) -> None:
    with pytest.raises(CortadoError, match=r"needs an ExportedProgram, found \w+; use torch.export.export"):
        CortexMPassManager(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize("item", [Quiet(), Quiet.run, int, "fold-qparams"], ids=["instance", "method", "type", "name"])
def test_only_classes_of_passes_are_taken(tiny: Model, item: object) -> None:
    with pytest.raises(CortadoError, match="passes must be subclasses of CortexMPass, not instances"):
        CortexMPassManager(tiny.quantized.program(), [item])  # type: ignore[list-item]


def test_the_base_class_can_not_be_run(tiny: Model) -> None:
    with pytest.raises(TypeError, match="abstract"):
        CortexMPass()  # type: ignore[abstract]


# ---- verify -------------------------------------------------------------------------------------------------------


def breaking(change: Callable[[GraphModule], None]) -> type[CortexMPass]:
    """A pass behind the pipeline that leaves a lowered graph broken."""

    class Breaks(CortexMPass):
        name: ClassVar[str] = "breaks"
        level_before: ClassVar[Level] = Level.LOWERED
        level_after: ClassVar[Level] = Level.LOWERED

        def run(self, module: GraphModule) -> bool:
            change(module)
            return False  # it even denies the change

    return Breaks


def calls(module: GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "call_function"]


def convolution(module: GraphModule) -> torch.fx.Node:
    return next(node for node in calls(module) if "conv2d" in str(node.target))


def drop_argument(module: GraphModule) -> None:
    node = convolution(module)
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "activation_min"}


def go_positional(module: GraphModule) -> None:
    node = convolution(module)
    node.args, node.kwargs = tuple(node.kwargs.values()), {}


def forget_value(module: GraphModule) -> None:
    del convolution(module).meta["val"]


def change_dtype(module: GraphModule) -> None:
    node = convolution(module)
    node.meta["val"] = node.meta["val"].to(torch.int16)


def bring_aten_back(module: GraphModule) -> None:
    convolution(module).target = torch.ops.aten.relu.default


def swap_order(module: GraphModule) -> None:
    first, second = calls(module)[:2]
    second.append(first)


def rename_constant(module: GraphModule) -> None:
    next(node for node in module.graph.nodes if node.op == "placeholder").name = "elsewhere"


def return_nothing(module: GraphModule) -> None:
    output_node(module.graph).args = ((),)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (drop_argument, "every call has exactly the arguments of its schema"),
        (go_positional, "arguments are passed by name"),
        (forget_value, "every call has a value of known shape"),
        (change_dtype, "every call gives the dtype of its operator"),
        (bring_aten_back, "every call is an operator of the registry"),
        (swap_order, "every operand is defined before it is used"),
        (rename_constant, "the signature names the placeholders in their order"),
        (return_nothing, "the graph returns a tensor"),
    ],
)
def test_a_broken_pass_is_caught(tiny: Model, change: Callable[[GraphModule], None], rule: str) -> None:
    manager = CortexMPassManager(tiny.quantized.program(), [*PIPELINE, breaking(change)], M4)
    with pytest.raises(CortadoError, match=f"after breaks: broken rule at level LOWERED: {rule}"):
        manager.transform()


def take_another(module: GraphModule) -> None:
    part = next(node for node in calls(module) if node.target is getitem)
    part.args = (part.args[0], 2)


def take_all(module: GraphModule) -> None:
    part = next(node for node in calls(module) if node.target is getitem)
    part.replace_all_uses_with(present(taken_from(part)), lambda user: user.op == "call_function")


class CellsAndStates(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, (_, cells) = self.lstm(x)
        return states, cells


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (take_another, "a call that takes one of several results takes one that exists"),
        (take_all, "several results are read one by one"),
    ],
)
def test_a_pass_that_mistakes_results_is_caught(change: Callable[[GraphModule], None], rule: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 5, 3)
    model = prepare(CellsAndStates().eval(), (x,), [(x,)])
    manager = CortexMPassManager(model.quantized.program(), [*PIPELINE, breaking(change)], M4)
    with pytest.raises(CortadoError, match=f"after breaks: broken rule at level LOWERED: {rule}"):
        manager.transform()


def test_missing_data_is_caught(tiny: Model) -> None:
    class Loses(CortexMPass):
        name: ClassVar[str] = "loses"
        level_before: ClassVar[Level] = Level.LOWERED
        level_after: ClassVar[Level] = Level.LOWERED

        def __init__(self, exported_program: ExportedProgram) -> None:
            self.program = exported_program

        def run(self, module: GraphModule) -> bool:
            self.program.state_dict.clear()
            return False

    with pytest.raises(CortadoError, match=r"after loses: .*every constant has data"):
        CortexMPassManager(tiny.quantized.program(), [*PIPELINE, Loses], M4).transform()


def test_verify_runs_before_a_pass_too(tiny: Model) -> None:
    """A pass for lowered graphs is not let near a quantized one."""

    class NeverRun(CortexMPass):
        name: ClassVar[str] = "never-run"
        level_before: ClassVar[Level] = Level.LOWERED
        level_after: ClassVar[Level] = Level.LOWERED

        def run(self, module: GraphModule) -> bool:
            raise AssertionError("it ran")

    with pytest.raises(CortadoError, match="before never-run: broken rule at level LOWERED"):
        CortexMPassManager(tiny.quantized.program(), [NeverRun], M4).transform()


# ---- the pipeline -------------------------------------------------------------------------------------------------


def test_every_pass_has_a_name_a_contract_and_levels_that_meet() -> None:
    names = [cls.name for cls in PIPELINE]
    assert len(set(names)) == len(names)
    assert all(cls.__doc__ for cls in PIPELINE)
    assert PIPELINE[0].level_before is Level.QUANTIZED
    assert PIPELINE[-1].level_after is Level.LOWERED
    for first, second in itertools.pairwise(PIPELINE):
        assert first.level_after is second.level_before


def test_a_lowered_graph_holds_only_known_operators(tiny: Model) -> None:
    program = CortexMPassManager(tiny.quantized.program(), target_config=M4).transform()
    for node in calls(program.graph_module):
        operator = present(operator_of(node.target))
        assert operator is registry().operators[operator.name]
        assert operator.namespace == "cortex_m" or operator.view


def test_what_was_decided_when_it_was_quantized_is_not_asked_again(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which pattern takes a call, that is; quantize and dequantize came after."""
    program, asked = tiny.quantized.program(), []
    own = matching.decide

    def decide(node: torch.fx.Node) -> Match | Reject:
        asked.append(str(node.target))
        return own(node)

    monkeypatch.setattr(matching, "decide", decide)
    settled = [node for node in calls(program.graph_module) if MATCH.known(node)]
    assert any("conv2d" in str(node.target) for node in settled)
    CortexMPassManager(program, target_config=M4).transform()
    assert asked
    assert [target for target in asked if "quantize_per" not in target] == []


def test_quantized_once_lowered_often(tiny: Model) -> None:
    """Lowering leaves the quantized model alone: the second lowering gives the same graph as the first."""
    first = CortexMPassManager(tiny.quantized.program(), target_config=M4).transform()
    second = CortexMPassManager(tiny.quantized.program(), target_config=M4).transform()
    assert print_graph(first) == print_graph(second)


# ---- intermediates ------------------------------------------------------------------------------------------------


def test_intermediates_are_the_graph_after_each_pass(tiny: Model, tmp_path: Path) -> None:
    """Files by number and name, each with what the pass promises."""
    folder = tmp_path / "new" / "graphs"
    CortexMPassManager(tiny.quantized.program(), target_config=M4, intermediates=folder).transform()
    passes = [cls for cls in PIPELINE if cls not in ASKED_FOR]
    names = [f"{number:02d}-{cls.name}.txt" for number, cls in enumerate(passes, start=1)]
    assert sorted(path.name for path in folder.iterdir()) == names
    program = tiny.quantized.program()
    for name, cls in zip(names, passes, strict=True):
        CortexMPassManager(program, [cls], M4).transform()
        assert (folder / name).read_text() == f"# after {cls.name}: {inspect.getdoc(cls)}\n{print_graph(program)}"


@pytest.mark.host
def test_the_golden_network_runs(tiny_artifact: Artifact) -> None:
    """What the golden graphs describe is executed, too: the bundle gives the reference's bits."""
    assert tiny_artifact.run([tiny_artifact.example()], "host").bit_exact


# ---- modules whose Python is written late -------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
def test_outputs_of_the_same_codes_keep_their_own_scales() -> None:
    """2 * y and 4 * y are the codes of y under two other scales, and so two outputs."""
    torch.manual_seed(3)
    model = Function(lambda self, x: (y := self.layer(x), y * 2, y * 4), layer=torch.nn.Linear(16, 4)).eval()
    batches = [(randn(1, 16, seed=seed),) for seed in range(4)]
    compiled = prepare(model, batches[0], batches, name="net").compile("cortex-m4", Options(artifacts=Artifacts.C))
    checked = compiled.run(*batches[0], on="host")
    assert checked.bit_exact
    for found, wanted in zip(checked.outputs, model(*batches[0]), strict=True):
        assert decibels(wanted.detach(), torch.from_numpy(found)) > 35


def test_a_changed_graph_is_written_down_when_it_runs_or_is_read() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    x, modules = torch.tensor([-2.0, 3.0]), [torch.fx.symbolic_trace(Two()) for _ in range(3)]
    with late_code():
        for module in modules:
            next(node for node in module.graph.nodes if node.op == "call_function").target = torch.neg
            module.recompile()
        copied = copy.deepcopy(modules[0])
        assert not any("_code" in vars(module) for module in (*modules, copied)), "written although nobody asked"
        assert torch.equal(modules[0](x), -x)
    assert "torch.neg" in modules[1].code
    for module in (*modules, copied):
        assert torch.equal(module(x), -x)
        module.recompile()
        assert torch.equal(module(x), -x)
