"""A module with several methods as one model: shared constants, one arena, and state that all methods share.

Each method is captured as a function: the buffers that some method changes are additional inputs, and their new values
additional outputs. So a method is calibrated and checked with the state that it actually sees, whichever method wrote
it; in the program the same tensors are state, at the same offsets for every method.
"""

import copy
import hashlib
import inspect
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cortado.api import Compiled, Model, prepare_method
from cortado.artifact.folder import METHODS, write_together
from cortado.artifact.opened import PAGE
from cortado.artifact.pages import build_methods_page
from cortado.base.arrays import ArrayType
from cortado.base.chips import Chip
from cortado.base.element import INT32, element_of
from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier, check_name, identifier_part
from cortado.base.progress import PhaseProgress
from cortado.base.target import BUNDLE_FLAGS, WASM_FLAGS, Core, CortexMTargetConfig, Machine, from_target_string
from cortado.emit.c.bundle import Bundle, emit_methods, with_selftest_stack
from cortado.emit.c.selftest import TestedCall
from cortado.emit.c.text import entry_of
from cortado.emit.image.files import loader_files
from cortado.emit.image.layout import check_one_core
from cortado.emit.image.writer import ModelImage, emit_image, emit_image_of
from cortado.exploring import Estimate, info_of, planned_estimate
from cortado.frontend.quantize.sharing import SharedRanges
from cortado.ir.graph import module_path
from cortado.ops.meaning import CallKind, means
from cortado.options import DEFAULTS, Artifacts, Options, PackageKind, PteKind
from cortado.plan.kernel_costs import costs_for
from cortado.plan.lowered import LoweredGraph, State, Value, run_reference
from cortado.plan.planned import Planned
from cortado.plan.program import Tensor as ProgramTensor
from cortado.plan.request import WHOLE_INPUT, program_of
from cortado.plan.schedule import schedule
from cortado.run.board import build_firmware, build_harness_wasm, build_host, find_board
from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.harness import script_source
from cortado.run.measure import executorch_folder, methods_code_bytes, selftest_stack_bytes
from cortado.run.runner import (
    HOST,
    WARNINGS,
    WASM,
    board_flags,
    bundle_includes,
    bundle_sources,
    run_bundle,
    write_files,
)
from cortado.web.package import INDEX, wasm_of
from cortado.web.teaching import Taught, check_taught, teaching_page

ScriptCall = tuple[Any, ...]  # the name of a method, and a tensor for each of its inputs
WEB_INDEX = f"{PackageKind.WEB.value}/{INDEX}"
_OWN = "cortado_method"
_PORTS = ("input", "output")
_KEPT = (torch.int32, torch.int64, torch.bool, torch.float32)


# ---- a method as a function --------------------------------------------------------------------------------------


class MethodModule(nn.Module):
    """A method of a module as a model of its own: state comes after the inputs, new state after the outputs."""

    def __init__(self, module: nn.Module, method: str, arguments: int, touched: "Touched") -> None:
        super().__init__()
        # Shares the dictionaries: layers and buffers keep their names in the module.
        self._parameters, self._buffers, self._modules = module._parameters, module._buffers, module._modules
        self.__dict__[_OWN] = (module, method, arguments, touched)  # a name that no layer can have

    def cortado_call(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Runs the method with state as plain attributes: torch.export would record assignments to buffers."""
        inner, method, arguments, touched = self.__dict__[_OWN]
        old = dict(zip(touched.read, values[arguments:], strict=True))
        names = dict.fromkeys((*touched.read, *touched.written))
        before = {_owner(inner, name): dict(_owner(inner, name)._buffers) for name in names}
        try:
            for name in names:
                owner = _owner(inner, name)
                value = owner._buffers.pop(_last(name))
                owner.__dict__[_last(name)] = old[name].clone() if name in old else value
            found = getattr(inner, method)(*values[:arguments])
            new = {name: _owner(inner, name).__dict__[_last(name)] for name in touched.written}
        finally:
            for name in names:
                _owner(inner, name).__dict__.pop(_last(name), None)
            for owner, buffers in before.items():
                owner._buffers.clear()
                owner._buffers.update(buffers)
        new |= {name: _made(old[name], new[name]) for name in touched.fixed}
        outputs = () if found is None else tuple(found) if isinstance(found, tuple | list) else (found,)
        return (*outputs, *new.values())


def _made(old: Tensor, new: Tensor) -> Tensor:
    """Returns `new` as the result of a kernel, for a new value that is the same after every call, whatever the old
    one."""
    if new.dtype == torch.bool:
        return torch.logical_or(torch.logical_and(old, new), new)
    if new.is_floating_point():
        return torch.where(old == new, old, new)  # NaN is equal to nothing
    return torch.minimum(torch.maximum(old, new), new)


def _owner(module: nn.Module, name: str) -> nn.Module:
    return module.get_submodule(name.rpartition(".")[0])


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _input_of(buffer: str) -> str:
    """Returns the name of the input for a buffer."""
    return f"state_{identifier_part(buffer)}"


def method_module(module: nn.Module, method: str, touched: "Touched") -> MethodModule:
    """Builds a module for one method; its inputs have their names in the user's code."""
    taken = [*inspect.signature(getattr(module, method)).parameters]
    names = [*taken, *map(_input_of, touched.read)]

    def forward(self: MethodModule, *values: Tensor) -> tuple[Tensor, ...]:
        return self.cortado_call(*values)

    kinds = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *names)]
    forward.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    kind = type(f"{type(module).__name__}_{method}", (MethodModule,), {"forward": forward})
    made: MethodModule = kind(module, method, len(taken), touched)
    return made.train(module.training)


@dataclass(frozen=True)
class Touched:
    """The buffers that a method reads, those that it changes, and those whose new values are computed separately from
    the old ones (`fixed`): the same after every call, or float32 that does not depend on them. Also the modules that it
    calls."""

    read: tuple[str, ...]
    written: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    modules: frozenset[str] = frozenset()


def touched(module: nn.Module, methods: Mapping[str, Sequence[Tensor]]) -> dict[str, Touched]:
    """Returns the buffers that each method reads and changes, among those that some method changes; no other buffer is
    state."""
    buffers = [name for name, _ in module.named_buffers()]
    found = {name: _touched(module, name, inputs, buffers) for name, inputs in methods.items()}
    state = {name for one in found.values() for name in one.written}
    return {
        name: replace(one, read=tuple(buffer for buffer in one.read if buffer in state)) for name, one in found.items()
    }


def _touched(module: nn.Module, method: str, inputs: Sequence[Tensor], buffers: Sequence[str]) -> Touched:
    """Finds them in the graph of the method with all buffers in and out, in which writes are plain calls."""
    whole = method_module(module, method, Touched(tuple(buffers), tuple(buffers)))
    values = dict(module.named_buffers())
    given = (*inputs, *(values[name].clone() for name in buffers))
    try:
        program = torch.export.export(whole, given, strict=False).run_decompositions({})
    except Exception as error:
        raise CortadoError(f"the method '{method}' can't be captured: {str(error).splitlines()[0]}") from error
    graph, kinds = program.graph_module.graph, program.graph_signature.user_inputs
    holders = {str(kind): name for kind, name in zip(kinds[len(inputs) :], buffers, strict=True)}
    returned: list[torch.fx.Node] = list(graph.output_node().args[0])
    given_back, last = returned[: len(returned) - len(buffers)], returned[len(returned) - len(buffers) :]
    sources = {name: _copied(node) for name, node in zip(buffers, last, strict=True)}
    written = tuple(name for name in buffers if holders.get(sources[name].name) != name)
    used = {holders[node.name] for node in graph.nodes if node.name in holders and _is_read(node)}
    used |= {holders[_copied(node).name] for node in given_back if _copied(node).name in holders}
    modules = frozenset(path for node in graph.nodes if (path := module_path(node)) is not None)
    return Touched(tuple(name for name in buffers if name in used), written, modules=modules)


def _copied(node: torch.fx.Node) -> torch.fx.Node:
    """Returns the source of a chain of copies."""
    while means(node, CallKind.COPY):
        node = node.all_input_nodes[0]
    return node


def _is_read(node: torch.fx.Node) -> bool:
    """Whether anything but returned copies reads it."""
    copies = [user for user in node.users if means(user, CallKind.COPY)]
    others = [user for user in node.users if user not in copies and user.op != "output"]
    return bool(others) or any(_is_read(copy) for copy in copies)


# ---- calls in order ------------------------------------------------------------------------------------------------


def _checked_call(call: Any, number: int, methods: Mapping[str, Sequence[Tensor]]) -> ScriptCall:
    if not isinstance(call, tuple | list) or not call or call[0] not in methods:
        known = ", ".join(f"'{name}'" for name in methods)
        raise CortadoError(
            f"call {number} is {call!r:.80}, expected a tuple that begins with the name of a method ({known}), as in "
            "('learn', x, label)"
        )
    name, *values = call
    shapes = [tuple(value.shape) if isinstance(value, Tensor) else None for value in values]
    wanted = [tuple(value.shape) for value in methods[name]]
    if shapes != wanted:
        raise CortadoError(f"call {number} of '{name}' has inputs of shapes {shapes}, expected {wanted}")
    return tuple(call)


@dataclass(frozen=True)
class Recorded:
    """A call of the user's module: its inputs, and the buffers before and after it."""

    inputs: tuple[Tensor, ...]
    before: Mapping[str, Tensor]
    after: Mapping[str, Tensor]


def _record(module: nn.Module, methods: Mapping[str, Any], calls: Sequence[ScriptCall]) -> dict[str, list[Recorded]]:
    """Records the calls of each method, made one after the other on a copy of the module."""
    running = copy.deepcopy(module)
    recorded: dict[str, list[Recorded]] = {name: [] for name in methods}
    for name, *values in calls:
        before = _buffers(running)
        with torch.no_grad():
            getattr(running, name)(*values)
        recorded[name].append(Recorded(tuple(values), before, _buffers(running)))
    for name, found in recorded.items():
        if not found:
            raise CortadoError(
                f"no calibration call of '{name}', expected at least one of every method, as ('{name}', ...)"
            )
    return recorded


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_buffers()}


def _with_fixed(found: Touched, calls: Sequence[Recorded]) -> Touched:
    """Adds the fixed buffers: those that are the same after all calls, which is safe even if by chance, as `_made`
    returns the method's value; and float32 that a method only writes, so that its new values, computed from it, are
    float32."""
    first = calls[0].after

    def made(name: str) -> bool:
        unread = first[name].is_floating_point() and name not in found.read
        return unread or all(torch.equal(one.after[name], first[name]) for one in calls)

    fixed = [name for name in found.written if made(name)]
    return replace(found, read=tuple(dict.fromkeys((*found.read, *fixed))), fixed=tuple(fixed))


# ---- the program ---------------------------------------------------------------------------------------------------


def _kept(name: str, value: Tensor) -> Tensor:
    """Returns a buffer as it is stored."""
    if value.dtype not in _KEPT:
        kind = str(value.dtype).removeprefix("torch.")
        raise CortadoError(
            f"the buffer '{name}' is {kind}, but a method changes it; expected float32, int32, int64 or bool: convert "
            "it when it is registered"
        )
    if value.dtype == torch.int64 and value.numel() and int(value.abs().max()) > INT32.high:
        raise CortadoError(f"the buffer '{name}' holds {int(value.abs().max())}, expected integers of 32 bits")
    return value.detach().to(torch.int32) if value.dtype == torch.int64 else value.detach().clone()


def _state_of(module: nn.Module, found: Collection[Touched]) -> dict[str, Tensor]:
    """Returns the buffers that methods read or change, as they are stored."""
    names = dict.fromkeys(buffer for one in found for buffer in (*one.read, *one.written))
    return {name: _kept(name, dict(module.named_buffers())[name]) for name in names}


def stateful(graph: LoweredGraph, found: Touched, state: Mapping[str, Tensor]) -> LoweredGraph:
    """Turns the last inputs and outputs of a method's graph into state, and adds all state that it does not touch."""
    taken, made = len(graph.inputs) - len(found.read), len(graph.outputs) - len(found.written)
    names = dict(zip(found.read, graph.inputs[taken:], strict=True))
    sources = dict(zip(found.written, graph.outputs[made:], strict=True))
    values = dict(graph.values)
    kept = []
    for buffer, initial in sorted(state.items()):
        name = names.get(buffer)
        if name is None:
            name = f"kept_{identifier_part(buffer)}"
            values[name] = Value(tuple(initial.shape), element_of(initial.dtype).unscaled)
        kept.append(State(buffer, name, sources.get(buffer, name), initial))
    return replace(graph, inputs=graph.inputs[:taken], outputs=graph.outputs[:made], values=values, state=tuple(kept))


def _same_arena(planned: Sequence[Planned]) -> list[Planned]:
    """Gives all methods one arena, of the size of the largest; checks that state is at the same offsets."""
    for checked in (False, True):
        plans = [one.checked if checked else one.plan for one in planned]
        places = [
            {kept.name: plan.offsets[kept.tensor.buffer] for kept in one.program.state}
            for one, plan in zip(planned, plans, strict=True)
        ]
        assert all(one == places[0] for one in places), "methods whose state is at different places"
    peak, wide = max(one.plan.peak for one in planned), max(one.checked.peak for one in planned)
    return [replace(one, plan=replace(one.plan, peak=peak), checked=replace(one.checked, peak=wide)) for one in planned]


@dataclass(frozen=True)
class MethodRun:
    """The outputs of calls, one after the other, and those of the reference."""

    on: str
    outputs: tuple[tuple[ArrayType, ...], ...]  # real numbers; integers as they are
    codes: tuple[tuple[ArrayType, ...], ...]
    expected: tuple[tuple[ArrayType, ...], ...]  # codes of the reference

    @property
    def bit_exact(self) -> bool:
        pairs = zip(self.codes, self.expected, strict=True)
        return all(np.array_equal(a, b) for x, y in pairs for a, b in zip(x, y, strict=True))

    def __repr__(self) -> str:
        return f"<MethodRun of {len(self.codes)} calls on {self.on}, {'' if self.bit_exact else 'NOT '}bit-exact>"


@dataclass(frozen=True, repr=False)
class CompiledMethods:
    """The methods of a model for one target: as one C bundle, and each by itself."""

    name: str
    target: CortexMTargetConfig
    methods: Mapping[str, Compiled]  # each by itself, with its state as inputs and outputs
    graphs: Mapping[str, LoweredGraph]  # with state
    planned: Mapping[str, Planned]
    bundle: Bundle
    images: Mapping[str, ModelImage]  # of a delegate for ExecuTorch
    image: ModelImage | None  # of all methods
    example: tuple[ScriptCall, ...]  # the first call of each method in calibration
    taught: tuple[int, int] | None = None  # with package='web': how many classes can be taught, and how many are known
    labels: tuple[str, ...] = ()  # of the known classes

    def __repr__(self) -> str:
        arena = next(iter(self.planned.values())).plan.peak
        names, target = ", ".join(self.methods), self.target.target_string
        return f"<CompiledMethods {self.name}: {names} in {arena:,} bytes for {target}>"

    def to_json(self) -> dict[str, Any]:
        first, known = next(iter(self.planned.values())), self.estimates()
        return {
            "target": self.target.target_string,
            "model": self.name,
            "id": first.program.identity,
            "methods": {
                name: {"function": entry_of(one.program), **({"cycles": known[name].cycles} if known else {})}
                for name, one in self.planned.items()
            },
            "state": {kept.name: kept.initial.data.nbytes for kept in first.program.state},
            "arena_bytes": first.plan.peak,
            "weights_bytes": self.bundle.weights_bytes,
            **({"image": {"bytes": len(image.data), "ram_bytes": image.ram_bytes}} if (image := self.image) else {}),
        }

    def estimates(self, chip: Chip | None = None) -> dict[str, Estimate]:
        """Estimates the cycles of each method; RAM and flash are those of all methods together. Empty if the core's
        costs aren't known."""
        if costs_for(self.target) is None:
            return {}
        weights, code = self.bundle.weights_bytes, self.code_bytes
        return {name: planned_estimate(one, {}, weights, code, chip) for name, one in self.planned.items()}

    @cached_property
    def code_bytes(self) -> int | None:
        """The bytes of code of all methods; None without a compiler."""
        main, *others = [one.program for one in self.planned.values()]
        entries = [
            text for one in others for text in (entry_of(one), *(f"{c_identifier(one.name)}_{verb}" for verb in _PORTS))
        ]
        return methods_code_bytes(self.bundle, info_of(main), entries)

    def save(self, folder: str | Path) -> None:
        """Writes the C code of all methods, and below methods/ a folder for each method by itself, which `run`,
        `validate` and `profile` take; all or nothing."""
        files: dict[str, str | bytes] = {**self.bundle.files, **self._as_image(), **self._for_executorch()}
        files[PAGE] = build_methods_page(self.to_json())
        if self.taught is not None:
            files[WEB_INDEX] = self.page()
        with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
            for name, compiled in self.methods.items():
                place = Path(temporary) / name
                compiled.save(place)
                inside = [path for path in sorted(place.rglob("*")) if path.is_file()]
                files |= {
                    f"{METHODS}/{name}/{path.relative_to(place).as_posix()}": path.read_bytes() for path in inside
                }
        write_together(Path(folder), files, self)

    def pte(self) -> bytes:
        """Returns the methods as those of one ExecuTorch program; only with pte='delegate'."""
        from cortado.emit.pte.delegate import emit_delegates

        together = {name: (self.planned[name], image) for name, image in self.images.items()}
        return emit_delegates(together, {"model": self.name}).data

    def _as_image(self) -> dict[str, str | bytes]:
        if self.image is None:
            return {}
        loader = loader_files(self.image.thunks, self.image.sources)
        return {f"{c_identifier(self.name)}.cortado": self.image.data, **loader}

    def _for_executorch(self) -> dict[str, str | bytes]:
        if not self.images:
            return {}
        thunks = {thunk.id: thunk for image in self.images.values() for thunk in image.thunks}
        loader = loader_files(thunks.values(), {one for image in self.images.values() for one in image.sources})
        return {f"{c_identifier(self.name)}.pte": self.pte(), **executorch_folder(loader, self.target)}

    def reference(self, calls: Sequence[ScriptCall]) -> tuple[list[list[ArrayType]], list[list[ArrayType]]]:
        """Returns, by the integer reference, the codes of the inputs of calls, and of the outputs that they must
        give."""
        given, expected = [], []
        for (name, *_), found in zip(calls, _played(self.graphs, calls), strict=True):
            program = self.planned[name].program
            given.append([found[tensor.node].numpy() for tensor in program.inputs])
            expected.append([found[tensor.node].numpy().copy() for tensor in program.outputs])
        return given, expected

    def run(self, calls: Sequence[ScriptCall], on: str | None = None) -> MethodRun:
        """Makes calls one after the other, such as ("learn", x, label), on the target's emulated board, on="host" or
        on="wasm". The first starts from the initial state; each leaves its state to the next."""
        examples = {name: one.example[: len(self.planned[name].program.inputs)] for name, one in self.methods.items()}
        checked = [_checked_call(call, number, examples) for number, call in enumerate(calls)]
        given, expected = self.reference(checked)
        programs = [one.program for one in self.planned.values()]
        room, back = self._largest
        samples = [[np.frombuffer(one, dtype=np.uint8)] for one in self._packed(checked, given)]
        info = BundleInfo(
            c_identifier(self.name),
            self.target,
            (IO("call", (room + 1,), "uint8"),),
            (IO("answer", (max(back, 1),), "uint8"),),
            state=True,
        )
        with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
            folder = Path(temporary)
            write_files(folder, self._files(on))
            (folder / "harness_model.c").write_text(script_source(info, programs, room, back))
            result = run_bundle(folder, info, samples, on, built=lambda board: _built(folder, info, board, on))
        codes = [
            _unpacked(answer[0], self.planned[name].program.outputs)
            for (name, *_), answer in zip(checked, result.samples, strict=True)
        ]
        real = [
            tuple(_real(tensor, one) for tensor, one in zip(self.planned[name].program.outputs, found, strict=True))
            for (name, *_), found in zip(checked, codes, strict=True)
        ]
        return MethodRun(result.on, tuple(real), tuple(codes), tuple(tuple(one) for one in expected))

    @property
    def _largest(self) -> tuple[int, int]:
        """The largest sizes of a call's inputs and outputs, in bytes."""
        programs = [one.program for one in self.planned.values()]
        groups = [[one.inputs for one in programs], [one.outputs for one in programs]]
        room, back = (max(sum(tensor.bytes for tensor in one) for one in group) for group in groups)
        return room, back

    def _packed(self, calls: Sequence[ScriptCall], given: Sequence[Sequence[ArrayType]]) -> list[bytes]:
        """Packs calls for the harness: the number of a method, and its inputs."""
        numbers, size = [*self.planned], self._largest[0] + 1
        return [
            (bytes([numbers.index(name)]) + _bytes(inputs)).ljust(size, b"\0")
            for (name, *_), inputs in zip(calls, given, strict=True)
        ]

    def page(self) -> str:
        """Returns the page on which the model is taught with a browser's microphone; only with package='web'."""
        if self.taught is None:
            raise CortadoError("methods that were compiled without package='web' have no page")
        planned, (room, back) = self.planned_for_host(), self._largest
        programs = [one.program for one in planned.values()]
        given, expected = self.reference(self.example)
        prefix = c_identifier(self.name)
        info = BundleInfo(prefix, self.target, (), (), state=True)
        files = emit_methods(list(planned.values()), [None] * len(planned)).files
        return teaching_page(
            Taught(
                name=self.name,
                version=self._options.model_version or next(iter(planned.values())).program.identity,
                target=self.target.target_string,
                classes=self.taught[0],
                known=self.taught[1],
                labels=self.labels,
                planned=planned,
                wasm=wasm_of(files, script_source(info, programs, room, back), prefix),
                call_bytes=room + 1,
                calls=self._packed(self.example, given),
                answers=[_bytes(one) for one in expected],
                plan=lambda target: _planned(self.name, self.graphs, target, self._options),
                flash=self.bundle.weights_bytes + (self.code_bytes or 0),
            )
        )

    def _files(self, on: str | None) -> Mapping[str, str]:
        """Returns the bundle's files; on this machine, with portable kernels."""
        if on not in (HOST, WASM):
            return self.bundle.files
        planned = self.planned_for_host()
        return emit_methods(list(planned.values()), [None] * len(planned)).files

    def planned_for_host(self) -> dict[str, Planned]:
        """Returns the programs with the kernels of this machine."""
        return _planned(self.name, self.graphs, self.target, self._options, portable=True)

    @property
    def _options(self) -> Options:
        return next(iter(self.methods.values())).options


def _played(graphs: Mapping[str, LoweredGraph], calls: Sequence[ScriptCall]) -> Iterator[dict[str, Tensor]]:
    """Yields the reference's values of each call, with the state left by earlier calls."""
    state = {one.buffer: one.initial for graph in graphs.values() for one in graph.state}
    for name, *values in calls:
        graph = graphs[name]
        found = run_reference(graph, values, {one.name: state[one.buffer] for one in graph.state})
        state |= {one.buffer: found[one.source] for one in graph.state}
        yield found


def first_calls(calls: Sequence[ScriptCall]) -> tuple[ScriptCall, ...]:
    """Returns the first call of each method, in order."""
    found: dict[str, ScriptCall] = {}
    for call in calls:
        found.setdefault(call[0], call)
    return tuple(found.values())


def calls_of_selftest(
    graphs: Mapping[str, LoweredGraph], planned: Mapping[str, Planned], calls: Sequence[ScriptCall]
) -> list[TestedCall]:
    """Returns these calls with the reference's values, and the state left by earlier calls."""
    return [
        TestedCall(
            planned[name],
            {key: value.numpy() for key, value in found.items() if isinstance(value, Tensor)},
            {one.buffer: one.source for one in graphs[name].state},
            name,
        )
        for (name, *_), found in zip(calls, _played(graphs, calls), strict=True)
    ]


def _bytes(values: Sequence[ArrayType]) -> bytes:
    return b"".join(np.ascontiguousarray(one).tobytes() for one in values)


def _unpacked(data: ArrayType, tensors: Sequence[ProgramTensor]) -> tuple[ArrayType, ...]:
    found, at, raw = [], 0, np.ascontiguousarray(data).tobytes()
    for tensor in tensors:
        part = raw[at : at + tensor.bytes]
        found.append(np.frombuffer(part, dtype=tensor.dtype).reshape(tensor.shape))
        at += tensor.bytes
    return tuple(found)


def _real(tensor: ProgramTensor, codes: ArrayType) -> ArrayType:
    """Converts codes to real numbers, in the model's order of dimensions."""
    moved = codes if codes.ndim == 0 else codes.transpose(np.argsort(tensor.layout))
    if tensor.qparams is None:
        return moved
    return np.asarray(
        (moved.astype(np.float32) - np.float32(tensor.qparams.zero_point)) * np.float32(tensor.qparams.scale)
    )


def _built(folder: Path, info: BundleInfo, board: Machine | None, on: str | None) -> Path:
    sources, includes = bundle_sources(folder, "c" if board is None else "cS"), bundle_includes(folder)
    if on == WASM:
        return build_harness_wasm(sources, includes, [*WARNINGS, *WASM_FLAGS], info.name)
    if board is None:
        return build_host(sources, includes, [*WARNINGS, *BUNDLE_FLAGS], info.name)
    flags = [*board_flags(info.target, board), *WARNINGS, *BUNDLE_FLAGS]
    return build_firmware(find_board(board), sources, includes, flags, info.name)


# ---- compile -------------------------------------------------------------------------------------------------------


def _planned(
    name: str,
    graphs: Mapping[str, LoweredGraph],
    target: CortexMTargetConfig,
    options: Options,
    *,
    portable: bool = False,
) -> dict[str, Planned]:
    """Plans the methods in one arena; the first is the model itself, the others are its additional methods."""
    main = next(iter(graphs))
    cores = (Core.PORTABLE,) if portable else None
    programs = {
        method: program_of(
            name if method == main else f"{name}_{method}", graph, target, options.io, WHOLE_INPUT, cores=cores
        )
        for method, graph in graphs.items()
    }
    every = hashlib.sha256("\n".join(one.identity for one in programs.values()).encode()).hexdigest()
    identity = every[: len(programs[main].identity)]
    owned = [
        replace(one, identity=identity, method_of="" if method == main else name) for method, one in programs.items()
    ]
    return dict(zip(programs, _same_arena([schedule(one, options.optimize) for one in owned]), strict=True))


def compile_methods(
    module: nn.Module,
    methods: Mapping[str, Sequence[Tensor]],
    target: str | CortexMTargetConfig,
    calibration: Sequence[ScriptCall],
    name: str | None = None,
    options: Options = DEFAULTS,
    *,
    labels: Sequence[str] = (),
    progress: PhaseProgress = lambda phase: None,
) -> CompiledMethods:
    """Compiles several methods of a module as one model: {"forward": (x,), "learn": (x, label), "forget": ()}, by name,
    each with example inputs. `calibration` holds calls in an order in which a device can make them, such as ("learn",
    x, label): each method is calibrated on its own calls, with the state left by the earlier ones. Buffers that a
    method changes are state, which all methods share: int32, int64, bool or float32; results computed from real state
    are float32 too. "forward", or else the first, is MODEL_run in C; any other is MODEL_METHOD. With pte='delegate',
    methods without state are also the methods of one ExecuTorch program; with package='web' there is a page to teach
    the model in a browser, on which `labels` name the classes that it knows."""
    config = from_target_string(target) if isinstance(target, str) else target
    chosen = check_name(name or type(module).__name__.lower())
    is_delegated = options.pte is PteKind.DELEGATE
    # No bias correction: it depends on the method, and a layer has one bias in all methods.
    options = replace(_only_c(options, config), bias_correction=False)
    _check_methods(module, methods)
    ordered = {one: tuple(methods[one]) for one in sorted(methods, key=lambda one: one != "forward")}
    found = touched(module, ordered)
    state = _state_of(module, found.values())
    if is_delegated:
        _check_delegated(config, state)
    calls = [_checked_call(call, number, ordered) for number, call in enumerate(calibration)]
    recorded = _record(module, ordered, calls)
    found = {method: _with_fixed(one, recorded[method]) for method, one in found.items()}
    ranges = SharedRanges()
    modules = frozenset().union(*(one.modules for one in found.values()))
    of_method = partial(_of_method, options=options, every=modules, state=state)

    def models() -> dict[str, Model]:
        return {
            method: prepare_method(
                *(method_module(module, method, one), samples[0], samples, f"{chosen}_{method}"),
                options=of_method(one),
                target=config,
                progress=progress,
                ranges=ranges,
            )
            for method, one in found.items()
            for samples in ([(*call.inputs, *(call.before[name] for name in one.read)) for call in recorded[method]],)
        }

    prepared = models()
    prepared = models() if ranges.join() else prepared
    compiled, graphs = {}, {}
    for method, one in found.items():
        compiled[method] = prepared[method].compile(config, of_method(one))
        graph = compiled[method].graph
        assert graph is not None  # only the C bundle is made
        graphs[method] = stateful(graph, one, state)
    made = _joined(chosen, compiled, graphs, first_calls(calls), config, options, is_delegated=is_delegated)
    return _with_page(made, module, labels, options)


def _joined(
    name: str,
    compiled: Mapping[str, Compiled],
    graphs: Mapping[str, LoweredGraph],
    calls: Sequence[ScriptCall],
    target: CortexMTargetConfig,
    options: Options,
    *,
    is_delegated: bool,
) -> CompiledMethods:
    """Joins the methods to one C bundle, and to images; `calls`: one of each method."""
    planned = _planned(name, graphs, target, options)
    stacks = [None if one.report.memory is None else one.report.memory.stack_bytes for one in compiled.values()]
    tested = calls_of_selftest(graphs, planned, calls) if options.selftest else []
    bundle = emit_methods(list(planned.values()), stacks, options.model_version, tested)
    if tested:
        main = planned[next(iter(planned))]
        bundle = with_selftest_stack(bundle, main, selftest_stack_bytes(bundle, info_of(main.program)))
    _check_names(planned, bundle)
    images = {method: emit_image(one) for method, one in planned.items()} if is_delegated else {}
    image = emit_image_of(planned) if options.image else None
    return CompiledMethods(name, target, compiled, graphs, planned, bundle, images, image, tuple(calls))


def _with_page(made: CompiledMethods, module: nn.Module, labels: Sequence[str], options: Options) -> CompiledMethods:
    if not options.package:
        return made
    taught = check_taught(module, {name: one.program for name, one in made.planned.items()})
    return replace(made, taught=taught, labels=tuple(labels))


def _of_method(found: Touched, options: Options, every: Collection[str], state: Mapping[str, Tensor]) -> Options:
    """Returns the options of a method: without module names that only other methods call, and with float32 for real
    state that it reads."""

    def own(expressions: tuple[str, ...]) -> tuple[str, ...]:
        elsewhere = [text for text in expressions if _names_any(text, every) and not _names_any(text, found.modules)]
        return tuple(text for text in expressions if text not in elsewhere)

    real = [name for name in found.read if state[name].is_floating_point()] if options.has_codes else []
    kept = tuple(re.escape(_input_of(name)) for name in real)
    return replace(
        options, int16=own(options.int16), float32=(*own(options.float32), *kept), image=False, selftest=False
    )


def _names_any(expression: str, modules: Collection[str]) -> bool:
    return any(re.fullmatch(expression, one) for one in modules)


def _only_c(options: Options, target: CortexMTargetConfig) -> Options:
    """Refuses options that a bundle of methods doesn't support."""
    check_one_core(target, image=options.image)
    refused = {
        "stream": options.stream is not None,
        "input_rows": options.input_rows,
        "decide": options.decide is not None,
        "camera": options.camera is not None,
        "watch": options.watch is not None,
        "memory": bool(options.memory),
        "place": bool(options.place),
        "package": any(kind is not PackageKind.WEB for kind in options.package),
        "sequence": options.sequence is not None,
        "allow_float": options.allow_float,
        "artifacts='pte'": options.artifacts is Artifacts.PTE,
    }
    given = [name for name, is_given in refused.items() if is_given]
    if given:
        raise CortadoError(
            f"{given[0]} is for a model of one method; several are one C bundle, with pte='delegate' a .pte too. Leave "
            "it out, or compile the method by itself"
        )
    return replace(options, artifacts=Artifacts.C, pte=PteKind.OPERATORS)


def _check_delegated(target: CortexMTargetConfig, state: Mapping[str, Tensor]) -> None:
    """Refuses a .pte of methods that share state: each method of an ExecuTorch program has a delegate of its own."""
    check_one_core(target, image=True)
    if state:
        raise CortadoError(
            f"pte='delegate' with {len(state)} buffers that methods change ({', '.join(state)}): the methods of a .pte "
            "share no state, because each has its own delegate and arena. Leave it out for the C bundle, or make the "
            "state an input and an output of the methods"
        )


def _check_methods(module: nn.Module, methods: Mapping[str, Sequence[Tensor]]) -> None:
    if not methods:
        raise CortadoError("no methods were given, expected names with example inputs, as in {'forward': (x,)}")
    for name, inputs in methods.items():
        if not callable(getattr(type(module), name, None)):
            raise CortadoError(f"{type(module).__name__} has no method '{name}'; expected one that it defines")
        taken = inspect.signature(getattr(module, name)).parameters
        if any(one.kind not in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in taken.values()):
            raise CortadoError(f"the method '{name}' takes *args, **kwargs or keywords; expected positional inputs")
        if len(taken) != len(inputs) or not all(isinstance(value, Tensor) for value in inputs):
            raise CortadoError(
                f"the method '{name}' takes {len(taken)} inputs ({', '.join(taken)}), found {len(inputs)} examples; "
                "expected a tensor for each"
            )


def _check_names(planned: Mapping[str, Planned], bundle: Bundle) -> None:
    """Refuses a method whose C name is one of the functions of every bundle."""
    main, *others = planned.values()
    header = bundle.files[f"{c_identifier(main.program.name)}.h"]
    for one in others:
        entry = c_identifier(one.program.name)
        if re.search(rf"\b{entry}\(", header):
            raise CortadoError(f"a method would be {entry} in C, a name that every bundle uses; give it another name")
