"""Random networks of integers and truth values alone: what comes out must be just what torch gives.

`make fuzz` draws them by the hundred: arithmetic in types that wrap around, counts, comparisons, computed
positions, movement, writes. A network is a seed, and a list of steps that its repr shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import torch
from torch import nn

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.passes import PIPELINE, CortexMPassManager
from cortado.plan.lowered import lowered_graph, reference_outputs
from fuzz.host import build_host
from fuzz.oracles import Case, Choices, host_case
from fuzz.steps import STEPS, Step, Values
from helpers.single import EVERY_VALUE

Tensor = torch.Tensor
KINDS = (torch.int64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
SIZES = ((3, 4), (6,), (2, 3, 4), (1, 5), (4, 1), (2, 2))
LARGEST = 2**24  # of int64 and int32 while a network is drawn: others may be larger, and are to fit 32 bits
MOST_VALUES = 200
_ATTEMPTS = 60


@dataclass(frozen=True)
class Integers:
    """A network as plain data: types and shapes of its inputs, its steps, which values it gives."""

    inputs: tuple[tuple[torch.dtype, tuple[int, ...]], ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    seed: int

    def batches(self, count: int, scale: float = 1.0, seed: int = 0) -> list[tuple[Tensor, ...]]:
        """Small numbers in wide types, all numbers in narrow ones."""
        rng = torch.Generator().manual_seed(1000 * self.seed + seed)
        return [tuple(drawn(kind, sizes, rng) for kind, sizes in self.inputs) for _ in range(count)]


def drawn(kind: torch.dtype, sizes: tuple[int, ...], rng: torch.Generator) -> Tensor:
    if kind == torch.bool:
        return torch.rand(sizes, generator=rng) > 0.5
    low, high = (-20, 21) if kind in (torch.int32, torch.int64) else (torch.iinfo(kind).min, torch.iinfo(kind).max + 1)
    return torch.randint(low, high, sizes, generator=rng).to(kind)


class IntegerNetwork(nn.Module):
    def __init__(self, recipe: Integers) -> None:
        super().__init__()
        self.recipe = recipe

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.recipe.steps:
            values.append(step.run(values))
        return tuple(values[number] for number in self.recipe.outputs)


def draw_integers(seed: int) -> Integers:
    """The network of a seed, run while it is drawn."""
    rng, wanted = Random(seed), Random(seed).randint(3, 12)
    inputs = tuple((rng.choice(KINDS), rng.choice(SIZES)) for _ in range(rng.randint(1, 3)))
    values: Values = list(Integers(inputs, (), (), seed).batches(1)[0])
    steps: list[Step] = []
    for _ in range(_ATTEMPTS):
        step = rng.choice(list(STEPS.values()))(rng, values)
        made = _tried(step, values) if step is not None else None
        if step is not None and made is not None:
            steps.append(step)
            values.append(made)
        if len(steps) >= wanted:
            break
    read = {source for step in steps for source in step.sources}
    ends = [number for number in range(len(inputs), len(values)) if number not in read]
    return Integers(inputs, tuple(steps), tuple(ends[-4:]), seed)


def _tried(step: Step, values: Values) -> Tensor | None:
    try:
        made = step.run(values)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return None
    if not 0 < made.numel() <= MOST_VALUES or made.dim() > 4 or made.is_floating_point():
        return None
    return made if int(made.to(torch.int64).abs().max()) < LARGEST else None


class IntegerCase(Case):
    """Such a network on its way through the compiler."""

    def __init__(self, recipe: Integers, choices: Choices, name: str) -> None:
        self.recipe, self.choices, self.name = recipe, choices, name  # type: ignore[assignment]
        self.steps = recipe.steps
        self.network = IntegerNetwork(recipe)  # type: ignore[assignment]
        self.batches = recipe.batches(3)
        self.model = prepare(self.network, self.batches[0], self.batches, name=name, options=EVERY_VALUE)
        self.program = CortexMPassManager(
            self.model.quantized.program(), PIPELINE, target_config=choices.config
        ).transform()
        self.graph = lowered_graph(self.program)


def check_exact(case: IntegerCase) -> str:
    """What differs from torch on inputs that were not seen before; nothing where all is well."""
    for batch in (*case.batches, *case.recipe.batches(4, seed=1)):
        with torch.no_grad():
            wanted = case.network(*(value.clone() for value in batch))
        if any(int(value.to(torch.int64).abs().max()) > 2**31 - 1 for value in wanted):
            continue
        found = reference_outputs(case.graph, batch)
        for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if a.shape != b.shape or not torch.equal(a.to(torch.int64), b.to(torch.int64)):
                return f"output {number} is {a.tolist()}, the model's {b.tolist()}, for {[x.tolist() for x in batch]}"
    return ""


def is_constant(case: IntegerCase) -> bool:
    """Whether an output depends on no input: such a network is refused."""
    try:
        case.planned(None)
    except CortadoError as error:
        return "does not depend on any input" in str(error)
    return False


def check_c(cases: Sequence[IntegerCase]) -> list[str]:
    """The names of the networks whose C bundle gives other bits than the reference on this machine."""
    wrong = []
    for case in [case for case in cases if not is_constant(case)]:
        made, expected = host_case(case)
        with TemporaryDirectory(prefix="cortado-fuzz-") as folder:
            if build_host([made], Path(folder), checked=True).run(made) != expected:
                wrong.append(case.name)
    return wrong


def check_seed(seed: int) -> tuple[str, str, IntegerCase | None]:
    """ok, refused, wrong or crash; and what there is to say."""
    recipe = draw_integers(seed)
    if not recipe.outputs:
        return "empty", "", None
    try:
        case = IntegerCase(recipe, Choices.draw(seed), f"i{seed}")
        wrong = check_exact(case)
    except CortadoError as error:
        text = str(error)
        return ("wrong" if "fault of Cortado" in text or "in-place" in text else "refused"), text, None
    except Exception as error:  # whatever it is, it is told of
        return "crash", f"{type(error).__name__}: {error}", None
    return ("wrong", wrong, None) if wrong else ("ok", "", case)
