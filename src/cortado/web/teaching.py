"""The page of a model that learns from examples: an utterance from the microphone, its class, and the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cortado.base.element import element_of
from cortado.base.errors import CortadoError
from cortado.base.target import CortexMTargetConfig
from cortado.plan.kernel_costs import known_costs
from cortado.plan.planned import Planned
from cortado.plan.program import Program, Tensor
from cortado.web.facts import SOUND_RATE, chips_for, cycles_of
from cortado.web.package import base64_of, page_of

LEAST_SAMPLES = 256  # of an utterance
_EXPECTED = (
    "expected the methods of cortado.learning.prototypes, with a backbone that takes samples of sound: forward(x) "
    "with a class as its first output, learn(x, label) and forget(label), x a tensor [1, N] of N samples, and the "
    "module's `classes` and `known`"
)


@dataclass(frozen=True)
class Taught:
    """A compiled model that is taught by examples of sound."""

    name: str
    version: str
    target: str
    classes: int  # that can be taught
    known: int  # built in; their numbers come first
    labels: Sequence[str]  # of those
    planned: Mapping[str, Planned]  # with portable kernels
    wasm: bytes
    call_bytes: int
    calls: Sequence[bytes]  # an example: calls, encoded as the module takes them
    answers: Sequence[bytes]  # their expected results
    plan: Callable[[CortexMTargetConfig], Mapping[str, Planned]]
    flash: int


def check_taught(module: object, programs: Mapping[str, Program]) -> tuple[int, int]:
    """Checks the methods; returns how many classes can be taught, and how many are built in."""
    found = getattr(module, "classes", None), getattr(module, "known", None)
    classes, known = found
    taken = {name: [tensor.shape for tensor in one.inputs] for name, one in programs.items()}
    if not isinstance(classes, int) or not isinstance(known, int) or taken.keys() != {"forward", "learn", "forget"}:
        raise CortadoError(f"--package web of methods {', '.join(taken)}: there is no page for them; {_EXPECTED}")
    forward, learn, forget = (programs[name] for name in ("forward", "learn", "forget"))
    samples, *labels = (*forward.inputs, *learn.inputs[1:], *forget.inputs)
    count = int(np.prod(samples.shape))
    is_sound = len(forward.inputs) == 1 and count == max(samples.shape) and count >= LEAST_SAMPLES
    is_class = bool(forward.outputs) and _is_class(forward.outputs[0])
    if not is_sound or not is_class or len(labels) != 2 or not all(map(_is_class, labels)):
        raise CortadoError(f"--package web of methods that take {taken}: there is no page for them; {_EXPECTED}")
    return classes, known


def _is_class(tensor: Tensor) -> bool:
    return tensor.qparams is None and not tensor.element.real and int(np.prod(tensor.shape)) == 1


def teaching_page(taught: Taught) -> str:
    costs = _costs(taught)
    programs = {name: one.program for name, one in taught.planned.items()}
    main = programs["forward"]
    steps = sum(len(one.steps) for one in programs.values())
    facts = {
        "name": taught.name,
        "id": main.identity,
        "version": taught.version,
        "kind": "teach",
        "about": f"{steps} kernels of {len(programs)} methods, compiled ahead of time for {taught.target}, here as "
        "WebAssembly.",
        "labels": list(taught.labels),
        "classes": taught.classes,
        "known": taught.known,
        "callBytes": taught.call_bytes,
        "methods": {name: _method(number, one) for number, (name, one) in enumerate(programs.items())},
        "target": taught.target,
        "chip": None,
        "rate": SOUND_RATE,
        "rowBytes": 0,
        "layers": steps,
        "report": None,
        "flash": taught.flash,
        "costs": costs,
        "chips": chips_for(costs),
    }
    example = {name: [base64_of(one) for one in group] for name, group in _example(taught).items()}
    return page_of(taught.name, facts, {"wasm": base64_of(taught.wasm), "example": example, "recordings": []})


def _example(taught: Taught) -> dict[str, Sequence[bytes]]:
    return {"inputs": taught.calls, "outputs": taught.answers}


def _method(number: int, program: Program) -> dict[str, Any]:
    groups = {"inputs": program.inputs, "outputs": program.outputs}
    return {"number": number, **{kind: [_tensor(one) for one in group] for kind, group in groups.items()}}


def _tensor(tensor: Tensor) -> dict[str, Any]:
    low, high = element_of(tensor.dtype).codes if tensor.qparams else (-1, 1)
    scale, zero = (1.0, 0) if tensor.qparams is None else (tensor.qparams.scale, tensor.qparams.zero_point)
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "modelShape": [tensor.shape[at] for at in np.argsort(tensor.layout)],
        "layout": list(tensor.layout),
        "dtype": tensor.dtype,
        "scale": None if tensor.qparams is None else scale,
        "zeroPoint": None if tensor.qparams is None else zero,
        "range": [scale * (low - zero), scale * (high - zero)],
    }


def _costs(taught: Taught) -> dict[str, dict[str, int]]:
    """Returns RAM of all methods, and the estimated cycles of an answer and of an example, on each core with known
    costs."""
    found = {}
    for cpu, costs in known_costs().items():
        planned = taught.plan(CortexMTargetConfig(cpu))
        (cycles, missing), (learn, _) = (cycles_of(planned[name], costs) for name in ("forward", "learn"))
        peak = planned["forward"].plan.peak
        found[cpu.value] = {"ram": peak, "cycles": round(cycles), "missing": missing, "learn": round(learn)}
    return found
