"""The partitioner: which calls of a program Cortado takes, and why not the others."""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import getitem
from typing import Any

import executorch.kernels.quantized  # noqa: F401  # the out variants of what quantizes and stays outside
import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from executorch.exir.program._program import lift_constant_tensor_pass
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from cortado.base.target import from_target_string
from cortado.emit.image.layout import check_one_core
from cortado.executorch.part import (
    HOST,
    TARGET,
    CortadoBackend,
    Partition,
    aten_of,
    constants_of,
    dynamic_size,
    is_border,
    parameters_of,
)
from cortado.frontend.rewrite.decompose import written_out
from cortado.ir.facts import DELEGATED
from cortado.ir.op import registry
from cortado.ir.portable import written
from cortado.ir.schemas import NAMESPACE, computed_by

_ONLY_BORDERS = "it quantizes or dequantizes for calls that stay outside"
_ONLY_CONSTANTS = "it reads only constants, for calls that stay outside"
_ANEW = (
    "it has a new scale for every input (dynamic quantization), expected a constant one; quantize with "
    "is_dynamic=False and calibrate"
)


def _known(operator: Any) -> bool:
    """Returns whether an operator or a rewrite of Cortado's accepts calls of it, or it only quantizes or moves
    values."""
    found = registry()
    space = getattr(operator, "namespace", "")
    return (
        operator in found.patterns or operator in found.rewrites or space in ("quantized_decomposed", "dim_order_ops")
    )


class _Supported(OperatorSupportBase):
    """Calls that Cortado may be able to take, except those already refused."""

    def __init__(self, outside: dict[str, str], constants: Collection[Node]) -> None:
        self.outside, self.constants = outside, constants

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.op != "call_function":
            return False
        if node.name not in self.outside:
            reason = self._refusal(node)
            if reason is None:
                return True
            self.outside[node.name] = reason
        return False

    def _refusal(self, node: Node) -> str | None:
        """Explains why a call can't be taken, regardless of its context; None if it can."""
        size = dynamic_size(node)
        if size is not None:
            return f"its shape is dynamic ({size}), expected one that is known; export the model without dynamic_shapes"
        if node.target is getitem:
            source = node.all_input_nodes[0]
            return None if self.is_node_supported({}, source) else self.outside.get(source.name, _ONLY_BORDERS)
        if is_border(node) and any(one not in self.constants for one in parameters_of(node)):
            return _ANEW
        return None if _known(aten_of(node)) else f"no Cortado operator computes {aten_of(node)}"


class CortadoPartitioner(Partitioner):
    """Takes the calls that Cortado supports on a core. `target`: a core, or HOST for this machine."""

    def __init__(self, target: str) -> None:
        super().__init__()
        if target != HOST:
            check_one_core(from_target_string(target), image=True)
        self.target = target
        self.outside: dict[str, str] = {}
        """After partitioning: the nodes that stay outside, each with the reason."""

    def transform_for_pre_decomposition(self, program: ExportedProgram) -> ExportedProgram:
        """Decomposes to aten those calls of Cortado's own, as CortexMQuantizer writes them, that Cortado does not
        take."""
        while True:
            own = [node for node in program.graph.nodes if _is_own(node)]
            refused = _Trial(program, self.target).partitions()[1] if own else {}
            names = [node.name for node in own if node.name in refused]
            if not names:
                return program
            program = _written_back(program, names)

    def ops_to_not_decompose(self, program: ExportedProgram) -> tuple[list[OpOverload], Callable[[Node], bool] | None]:
        """Lists the calls to keep whole; a refused one may be decomposed, since the runtime's kernels or other
        partitioners may support its parts."""
        called = dict.fromkeys(node.target for node in program.graph.nodes if node.op == "call_function")
        kept = [one for one in called if isinstance(one, OpOverload) and one.namespace == "aten"]

        @cache
        def refused() -> dict[str, str]:
            return _Trial(program, self.target).partitions()[1]

        def is_taken(node: Node) -> bool:
            return node.name not in self.outside and _known(aten_of(node)) and node.name not in refused()

        return [one for one in kept if _known(one)], is_taken

    def partition(self, program: ExportedProgram) -> PartitionResult:
        found, self.outside = _Trial(program, self.target).partitions()
        specs = {}
        for number, part in enumerate(found):
            tag = f"cortado_{number}"
            for node in part:
                DELEGATED.note(node, tag)
            specs[tag] = DelegationSpec(CortadoBackend.__name__, [CompileSpec(TARGET, self.target.encode())])
        tag_constant_data(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=specs)


# ---- what nobody else has kernels for -----------------------------------------------------------------------------


def _is_own(node: Node) -> bool:
    """Returns whether a call is Cortado's own, written by its quantizer in place of one or several of aten's."""
    return isinstance(node.target, OpOverload) and node.target.namespace == NAMESPACE


def _written_back(program: ExportedProgram, names: Collection[str]) -> ExportedProgram:
    """Returns a copy of the program in which these calls are decomposed."""
    module, signature = copy.deepcopy(program.graph_module), copy.deepcopy(program.graph_signature)
    with module._set_replace_hook(signature.get_replace_hook()):
        for node in [node for node in module.graph.nodes if node.name in names]:
            written_out(node, _by_position(node.target))
    module.graph.eliminate_dead_code()
    module.recompile()
    made = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=program.state_dict,
        range_constraints=copy.deepcopy(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph),
        example_inputs=program.example_inputs,
        constants=dict(program.constants),
        verifiers=[program.verifier],
    )
    return lift_constant_tensor_pass(made)


def _by_position(target: OpOverload) -> Callable[..., Any]:
    """Returns an equivalent of a call in operators that ExecuTorch may know, or the call itself."""
    function, names = written(target), [argument.name for argument in target._schema.arguments]
    return (
        computed_by(target) if function is target else lambda *given: function(**dict(zip(names, given, strict=True)))
    )


# ---- what is refused ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    """A search for the parts of a program that compile, by lowering them."""

    program: ExportedProgram
    target: str
    constants: Mapping[Node, torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constants", constants_of(self.program))

    def partitions(self) -> tuple[list[list[Node]], dict[str, str]]:
        """Returns the parts that compile, and the reasons why the other calls don't."""
        outside: dict[str, str] = {}
        tried: dict[tuple[str, ...], str | None] = {}
        while True:
            supported = _Supported(outside, self.constants)
            finder = CapabilityBasedPartitioner(self.program.graph_module, supported, allows_single_node_partition=True)
            parts = [list(part.nodes) for part in finder.propose_partitions()]
            known = len(outside)
            for part in parts:
                outside |= self._constants(part)
            for part in parts if len(outside) == known else ():
                key = tuple(sorted(node.name for node in part))
                if key not in tried:
                    tried[key] = self._refusal(part)
                    outside |= {} if tried[key] is None else self._refused(part, str(tried[key]))
            if len(outside) == known:
                return parts, outside

    def _constants(self, part: Sequence[Node]) -> dict[str, str]:
        """Returns the calls of a part that read only constants and are read outside of it: their readers will compute
        them."""
        fixed, chosen = set(self.constants), set(part)
        for node in self.program.graph.nodes:
            if node in chosen and fixed.issuperset(node.all_input_nodes):
                fixed.add(node)
        leaving = [node for node in part if node in fixed and any(user not in chosen for user in node.users)]
        return {node.name: _ONLY_CONSTANTS for node in leaving}

    def _refused(self, part: Sequence[Node], reason: str) -> dict[str, str]:
        """Returns the calls of a part that are refused by themselves, or all if they are only refused together."""
        found: dict[str, str] = {}
        groups = _between_borders(part)
        for calls in groups if len(groups) > 1 else ():
            why = self._refusal(_with_borders(calls, part))
            found |= {} if why is None else {node.name: why for node in calls}
        return found or {node.name: reason for node in part}

    def _refusal(self, part: Sequence[Node]) -> str | None:
        """Explains why these calls don't compile; None if they do."""
        if all(is_border(node) for node in part):
            return _ONLY_BORDERS
        return Partition.of(part, self.program, self.constants).refusal(self.target)


def _between_borders(part: Sequence[Node]) -> list[list[Node]]:
    """Groups the calls of a part that are not separated by a quantize, as a layer and its relu."""
    groups: dict[Node, list[Node]] = {}
    for node in part:
        if not is_border(node):
            near = [groups[one] for one in (*node.all_input_nodes, *node.users) if one in groups]
            together = [node, *dict.fromkeys(one for group in near for one in group)]
            groups |= dict.fromkeys(together, together)
    return list({id(group): group for group in groups.values()}.values())


def _with_borders(calls: Sequence[Node], part: Sequence[Node]) -> list[Node]:
    """Extends calls by the quantizes and dequantizes around them."""
    reads = [one for node in calls for one in node.all_input_nodes if is_border(one)]
    gives = [one for node in calls for one in node.users if is_border(one)]
    reads += [one for node in reads for one in node.all_input_nodes if is_border(one)]
    gives += [one for node in gives for one in node.users if is_border(one)]
    wanted = {*calls, *reads, *gives}
    return [node for node in part if node in wanted]
