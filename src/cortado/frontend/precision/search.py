"""The choice of 16-bit tensors by measurement (--precision auto).

A tensor has 16 bits if the call that computes it and all that read it compute with int16 codes. The cost of each
tensor's int8 codes to the outputs is measured once: the noise if it alone is rounded, which adds up over tensors. So
the decibels of any choice are known without a run; its RAM and time are planned. Tensors are taken in the order of
decibels per byte and cycle until the bar holds (with few calls, the cheapest subset that should reach it is searched);
then those that are no longer needed are given back. The bar is judged by the integers of the lowered graph (accuracy:
by the quantized graph): on a selection of the samples during the search, and then on all of them; if these reach less,
the search goes on. The result competes with the choices that a user would write down (whole modules, the first calls,
the last ones, and all): the least RAM wins and, with equal RAM, the one whose decibels are worth their cycles. In the
end, tensors that cost no RAM are added.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from cortado.base.arrays import ratio_in_decibels
from cortado.base.element import WIDE, Element
from cortado.base.errors import CortadoError
from cortado.base.findings import Finding
from cortado.frontend.precision.elements import MAY_BE_WIDE
from cortado.frontend.quantize.fake_quant_run import Scales
from cortado.frontend.quantize.observer_replay import observed
from cortado.frontend.quantize.quantizer import fused_clamp
from cortado.frontend.rewrite.state import results
from cortado.ir.facts import STATE, is_float32, wanted_element
from cortado.ir.graph import bind, describe, module_path, shape
from cortado.ir.matching import MATCH, Match
from cortado.ir.roles import Activation, SharedWith

Tensor = torch.Tensor
Chosen = frozenset[str]  # names of calls that compute with int16 codes
PRICED = 2  # tensors whose bytes and cycles are planned before one is taken
MOST_PLANS = 8  # at most: after them sizes decide
SMALL = 12  # calls for which all subsets are considered
FEWEST_PLANS, PLANS = 4, 4000  # subsets planned: at least, and in all, divided by the cube of the number of calls
ROUNDS = 3  # of the search, each with a higher threshold
MEASURES = 96  # choices that are run, divided by the calls
TOLD = 3  # bottlenecks in a message, at most
TRIED = 2  # calls, at least, that are tried to be given back
CYCLES = 0.1  # the weight of cycles relative to bytes
DECIBEL = 0.02  # the share of cycles that a decibel is worth with equal RAM
UNIFORM = 3  # choices by module that are planned as competitors
FREE = 4  # choices that are planned to find tensors that cost no RAM
LIMITS, TELLING = 24, 10.0  # tensors examined if a bar is out of reach; dB from the worst that are reported
NOISE_WORK = 4_000_000  # values computed to measure one tensor, at most
FEWEST, MOST = 2, 4  # samples on which noise is measured
CONFIRMATIONS = 4  # choices that are judged on all data; the last has everything in int16
STEP = 1.0  # dB of the next threshold, if the bar is not in decibels


@dataclass(frozen=True)
class Price:
    """The cost of a network on a device."""

    ram: int
    cycles: float


@dataclass(frozen=True)
class Bar:
    """An accuracy target."""

    option: str  # as the user gave it
    least: float
    shown: Callable[[float], str]
    decibels: bool  # False: a share of samples
    nearly: float = 0.0  # by how much a cheaper choice may be worse on new data, if none reaches the bar there


@dataclass(frozen=True)
class Attempts:
    """Evaluation of the network with some calls in int16: its price, its quality on a selection of the samples and on
    all, and its bottlenecks. A price of None: it can't be lowered."""

    price: Callable[[Chosen], Price | None]
    measure: Callable[[Chosen], tuple[float, Price | None]]
    confirm: Callable[[Chosen], float]
    limits: Callable[[Chosen], Sequence["Bottleneck"]] = lambda chosen: ()


@dataclass(frozen=True)
class Bottleneck:
    """A remaining rounding, and the decibels that the outputs keep with it alone."""

    what: str
    kept: float


class OutOfReach(CortadoError):
    """The error for a bar that no choice reaches; with the quality and RAM of int8, and a function that judges the
    network in float32, which is not searched but prepared separately."""

    def __init__(self, message: str, before: str, ram: int) -> None:
        super().__init__(message)
        self.before, self.ram = before, ram
        self.in_float32: Callable[[Any], Mixed | None] = lambda quantized: None


@dataclass(frozen=True)
class TensorPrecision:
    """A tensor, its element, and why."""

    tensor: str
    module: str
    element: Element
    why: str


@dataclass(frozen=True)
class Mixed:
    """The result of the precision search."""

    calls: Chosen
    tensors: tuple[TensorPrecision, ...]
    bar: str
    reached: str
    before: str  # the quality with int8 alone
    ram: tuple[int, int]  # bytes: int8 alone, and as chosen
    new: str | None = None  # the least quality expected on new data, from ranges of each quarter of the samples
    findings: tuple[Finding, ...] = ()


# ---- tensors and calls -----------------------------------------------------------------------------------------------


@dataclass
class Tensors:
    """The tensors of a prepared graph, each identified by the node that computes it, not those that only move it; and
    their readers."""

    roots: dict[Node, Node] = field(default_factory=dict)
    reads: dict[Node, list[Node]] = field(default_factory=dict)  # by call
    fixed: set[Node] = field(default_factory=set)  # tensors whose element is fixed

    @staticmethod
    def of(graph: Graph) -> "Tensors":
        found, clamps = Tensors(), set[Node]()
        for node in graph.nodes:
            match = MATCH.of(node) if node.op == "call_function" and node not in clamps else None
            moved = _moved(node, match)
            found.roots[node] = found.roots[moved] if moved is not None else node
            if isinstance(match, Match) and moved is None:
                found._add(node, match)
                clamp = fused_clamp(node, match.pattern)
                clamps.update([clamp] if clamp is not None else ())
        lasting = [*results(graph), *(node for node in graph.nodes if STATE.known(node))]
        found.fixed.update(found.roots[node] for node in lasting if isinstance(node, Node))
        return found

    def _add(self, call: Node, match: Match) -> None:
        bound, inputs = bind(call), match.quantization.inputs
        names = [name for name, role in inputs.items() if isinstance(role, Activation)] or list(inputs)
        self.reads[call] = list(dict.fromkeys(self.roots[one] for name in names for one in bound.nodes(name)))

    @cached_property
    def readers(self) -> dict[Node, list[Node]]:
        found: dict[Node, list[Node]] = {}
        for call, tensors in self.reads.items():
            for tensor in tensors:
                found.setdefault(tensor, []).append(call)
        return found

    @cached_property
    def open(self) -> dict[Node, Chosen]:
        """The tensors that can be int16, each with the calls that then must be int16, and with an input that they read
        through a moving call, which has the element of what it moves."""
        found = {}
        for tensor in dict.fromkeys(self.roots.values()):
            calls = [*([tensor] if tensor in self.reads else []), *self.readers.get(tensor, [])]
            made = tensor in self.reads or tensor.op in ("placeholder", "get_attr")
            takes = all(MAY_BE_WIDE.known(call) and call not in self.fixed for call in calls)
            if made and takes and calls and tensor not in self.fixed:
                moved = [tensor] if tensor.op == "placeholder" and self._is_moved(tensor) else []
                found[tensor] = frozenset(node.name for node in (*calls, *moved))
        return found

    @property
    def every(self) -> Chosen:
        """All calls that can compute with int16 codes."""
        return frozenset(call for calls in self.open.values() for call in calls)

    def _is_moved(self, tensor: Node) -> bool:
        users = [user for one in tensor.users for user in (one.users if one.op == "call_module" else (one,))]
        return any(user.op == "call_function" and user not in self.reads for user in users)

    def bytes(self, chosen: Chosen) -> float:
        """Returns a rough estimate: the call with the largest tensors around it, plus a small share of all others."""
        around = [self._around(call, chosen) for call in self.reads]
        return max(around, default=0) + sum(around) / 8

    def _around(self, call: Node, chosen: Chosen) -> int:
        """Returns the bytes of a call's inputs and output, and of operands that it converts to its own element."""
        wide = call.name in chosen
        total = _size(call) * (2 if wide else 1)
        for one in self.reads[call]:
            made_wide = one.name in chosen if one in self.reads else wide
            total += _size(one) * (1 + made_wide + (made_wide != wide) * (1 + wide))
        return total


def _moved(node: Node, match: object) -> Node | None:
    """Returns the node whose values another one holds: through an observer, a fused clamp, data movement, a getitem."""
    if isinstance(match, Match):
        output = match.quantization.output
        return bind(node)[output.argument] if isinstance(output, SharedWith) else None
    return node.all_input_nodes[0] if node.op in ("call_module", "call_function") and node.all_input_nodes else None


def _size(node: Node) -> int:
    try:
        return math.prod(shape(node))
    except (KeyError, AttributeError):
        return 0


# ---- noise -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise:
    """The power at each real output: of the signal, of the unavoidable noise, and of the noise of each int8 tensor."""

    signal: tuple[float, ...]
    rest: tuple[float, ...]
    tensors: Mapping[Node, tuple[float, ...]]

    def reaching(self, decibels: float) -> "Noise":
        """Reduces the unavoidable noise to what was measured: corrected biases remove some of it."""
        more = decibels - self.decibels(self.tensors.keys())
        return replace(self, rest=tuple(power / 10 ** (max(0.0, more) / 10) for power in self.rest))

    def beside(self, other: "Noise") -> "Noise":
        """Returns the noise at the outputs of both: of the same tensors by name, measured on other samples."""
        theirs, none = {tensor.name: power for tensor, power in other.tensors.items()}, (0.0,) * len(other.signal)
        return Noise(
            self.signal + other.signal,
            self.rest + other.rest,
            {tensor: power + theirs.get(tensor.name, none) for tensor, power in self.tensors.items()},
        )

    def decibels(self, wide: Collection[Node]) -> float:
        """Returns the decibels of the worst output, if these tensors are int16."""
        kept = []
        for place, signal in enumerate(self.signal):
            noise = self.rest[place] + sum(one[place] for tensor, one in self.tensors.items() if tensor not in wide)
            kept.append(ratio_in_decibels(signal, noise) if signal > 0 else math.inf)
        return min(kept, default=math.inf)


def measure_noise(
    prepared: GraphModule,
    scales: Scales,
    tensors: Tensors,
    wanted: Sequence[Sequence[Tensor]],
    run: Callable[[Scales], list[list[Tensor]]],
) -> Noise:
    """Measures the noise. `run` gives the outputs of samples with some tensors rounded, `wanted` has those of the float
    model."""
    places: dict[Node, list[Node]] = {tensor: [] for tensor in tensors.open}
    for node, observer, _ in observed(prepared):
        if observer.element.affine and tensors.roots[node] in places and node in scales:
            places[tensors.roots[node]].append(node)
    loose = {node for nodes in places.values() for node in nodes}
    base = {node: scale for node, scale in scales.items() if node not in loose}
    without = run(base)
    found = {}
    for tensor, nodes in places.items():
        if nodes:
            found[tensor] = _power(without, run(base | {node: scales[node] for node in nodes}))
    zeros = [[torch.zeros_like(one) for one in sample] for sample in wanted]
    return Noise(_power(wanted, zeros), _power(wanted, without), found)


def limits_of(
    prepared: GraphModule,
    scales: Scales,
    wanted: Sequence[Sequence[Tensor]],
    run: Callable[[Scales], list[list[Tensor]]],
) -> list[Bottleneck]:
    """Returns the effect of each remaining rounding by itself, the worst first: that of the weights, those of int8
    tensors."""
    signal = _power(wanted, [[torch.zeros_like(one) for one in sample] for sample in wanted])
    weights = run({})
    found = [Bottleneck("weights of 8 bits", _least_decibels(signal, _power(wanted, weights)))]
    narrow: dict[Node, dict[Node, tuple[float, int]]] = {}
    for node, observer, origin in observed(prepared):
        if observer.element.affine and node in scales:
            narrow.setdefault(origin, {})[node] = scales[node]
    for origin in sorted(narrow, key=_size)[:LIMITS]:
        kept = _least_decibels(signal, _power(weights, run(narrow[origin])))
        what = f"input '{origin.name}'" if origin.op == "placeholder" else describe(origin)
        found.append(Bottleneck(f"{what} in int8", kept))
    return sorted(found, key=lambda one: one.kept)


def _least_decibels(signal: Sequence[float], noise: Sequence[float]) -> float:
    pairs = zip(signal, noise, strict=True)
    return min((ratio_in_decibels(one, other) for one, other in pairs if one > 0), default=math.inf)


def _power(wanted: Sequence[Sequence[Tensor]], found: Sequence[Sequence[Tensor]]) -> tuple[float, ...]:
    """Returns the power of the difference, summed over samples, at each real output."""
    total = [0.0 for one in wanted[0] if one.is_floating_point()]
    for sample, other in zip(wanted, found, strict=True):
        pairs = [(one, two) for one, two in zip(sample, other, strict=True) if one.is_floating_point()]
        for place, (one, two) in enumerate(pairs):
            apart = (one.to(torch.float64) - two.to(torch.float64))[torch.isfinite(one)]
            total[place] += float(apart.square().sum())
    return tuple(total)


def samples_for(size: int, samples: int) -> int:
    """Returns how many samples noise is measured on: fewer for a large network."""
    return min(samples, MOST, max(FEWEST, NOISE_WORK // max(size, 1)))


# ---- the choice ------------------------------------------------------------------------------------------------------


class MixedSearch:
    """The search: takes tensors until the bar holds."""

    def __init__(self, tensors: Tensors, noise: Noise, attempts: Attempts, bar: Bar) -> None:
        self._tensors, self._noise, self._attempts, self._bar, self._asked = tensors, noise, attempts, bar, bar
        self._prices: dict[Chosen, Price | None] = {}
        self._measured: dict[Chosen, float] = {}
        self._confirmed: dict[Chosen, float] = {}

    def choose(self) -> Mixed:
        every = self._tensors.every
        for rounds in range(CONFIRMATIONS):
            found = self._found(every) if rounds + 1 < CONFIRMATIONS else every
            missing = self._asked.least - self._confirm(found)
            if missing <= 0:
                return self.result(found)
            if found == every:
                break
            self._bar = replace(self._bar, least=self._measure(found) + missing)
        before = self._price(frozenset())
        shown = self._bar.shown(self._confirm(frozenset()))
        raise OutOfReach(self._out_of_reach(every), shown, 0 if before is None else before.ram)

    def _found(self, every: Chosen) -> Chosen:
        """Returns the choice that holds on a selection of the samples; everything that can be int16 if none does."""
        if self._holds(frozenset()):
            return frozenset()
        if not self._holds(every):
            return every
        self._noise = self._noise.reaching(self._measure(every)) if self._bar.decibels else self._noise
        found = [self._cheapest(every)] if len(every) <= SMALL else [self._in_order(every), *self._uniform(every)]
        return self._with_free(min([self._given_back(found[0]), *found[1:], every], key=self.cost))

    def _cheapest(self, every: Chosen) -> Chosen:
        """Returns the cheapest choice, with few calls, among all subsets. Those that suffice by their noise and are
        cheapest by their sizes are planned, or all if they are few; the cheapest of these that holds is taken."""
        names = sorted(every)
        subsets = [frozenset(one) for count in range(1, len(names) + 1) for one in combinations(names, count)]
        kept = {one: self._decibels(one) for one in subsets}
        plans, measures = max(FEWEST_PLANS, PLANS // len(every) ** 3), max(2, MEASURES // len(every))
        least = -math.inf if len(subsets) <= plans else self._first_threshold()
        for _ in range(ROUNDS):
            fit = [one for one in subsets if kept[one] >= least and one not in self._measured]
            fit = sorted(fit, key=lambda one: (self._tensors.bytes(one), -kept[one]))[:plans]
            failed: list[Chosen] = []
            found = self._first_that_holds(sorted(fit, key=self.cost), measures, failed)
            if found is not None:
                return found
            least, plans = max(least + 0.3, self._next_threshold(failed)), max(3, plans // 2)
        return every

    def _uniform(self, every: Chosen) -> list[Chosen]:
        """Returns the cheapest valid choice among whole modules, leading calls and trailing calls, trying the smallest
        whose noise is low enough."""
        calls, modules = [call for call in self._tensors.reads if call.name in every], dict[str, set[str]]()
        for call in calls:
            path = (module_path(call) or "").split(".")
            for depth in range(len(path)):
                modules.setdefault(".".join(path[: depth + 1]), set()).add(call.name)
        names = [call.name for call in calls]
        spans = [span for count in range(1, len(names)) for span in (names[:count], names[-count:])]
        choices = dict.fromkeys(frozenset(one) for one in (*modules.values(), *spans) if len(one) < len(every))
        least = self._first_threshold()
        fit = sorted((one for one in choices if self._decibels(one) >= least), key=self._tensors.bytes)
        found = self._first_that_holds(sorted(fit[:UNIFORM], key=self.cost), 1, [])
        return [] if found is None else [found]

    def _with_free(self, chosen: Chosen) -> Chosen:
        """Adds tensors that take no more RAM and are worth their cycles, found by bisection of the remaining ones."""
        left = [tensor for tensor, calls in self._tensors.open.items() if not calls <= chosen]
        parts, planned, grown = [left], 0, chosen
        while parts and planned < FREE:
            part = parts.pop(0)
            more = grown.union(*(self._tensors.open[tensor] for tensor in part))
            if more == grown:
                continue
            planned += more not in self._prices
            if self.cost(more) < self.cost(grown):
                grown = more
            elif len(part) > 1:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
        return grown if grown == chosen or self._holds(grown) else chosen

    def cost(self, chosen: Chosen) -> tuple[float, float]:
        """Returns bytes of RAM and, to break ties, cycles expressed in decibels minus the decibels."""
        price, alone = self._price(chosen), self._price(frozenset())
        if price is None:
            return math.inf, 0.0
        cycles = price.cycles / max(price.cycles if alone is None else alone.cycles, 1.0)
        return price.ram, cycles / DECIBEL - self._decibels(chosen)

    def _first_threshold(self) -> float:
        """Returns the decibels, computed from noise, above which a choice can be valid: corrected biases remove some
        noise."""
        noise = self._decibels(frozenset())
        if not self._bar.decibels:
            return noise + STEP
        return self._bar.least - max(0.0, self._measure(frozenset()) - noise) - 0.5

    def _next_threshold(self, failed: Sequence[Chosen]) -> float:
        """Returns the next threshold, by what the measured choices lack."""
        if not self._bar.decibels:
            return max((self._decibels(one) for one in failed), default=-math.inf) + 2 * STEP
        return min((self._decibels(one) + self._bar.least - self._measure(one) for one in failed), default=-math.inf)

    def _first_that_holds(self, choices: Sequence[Chosen], measures: int, failed: list[Chosen]) -> Chosen | None:
        """Returns the first choice that reaches the bar; at most `measures` are measured, and if one fails, so does
        every subset of it."""
        for one in choices:
            if len(failed) < measures and not any(one < other for other in failed):
                if self._holds(one):
                    return one
                failed.append(one)
        return None

    def _in_order(self, every: Chosen) -> Chosen:
        """Chooses tensor after tensor, for many calls."""
        chosen: Chosen = frozenset()
        aim = self._bar.least if self._bar.decibels else self._decibels(chosen) + STEP
        found = chosen
        while not self._holds(found):
            if chosen == every:
                return every
            chosen = self._grown(chosen, aim)
            found = self._pruned(chosen, aim)
            missing = self._bar.least - self._measure(found) if self._bar.decibels else STEP
            aim = max(aim, self._decibels(found)) + max(missing, 0.1)
        return found

    def _grown(self, chosen: Chosen, aim: float) -> Chosen:
        """Adds tensor after tensor, at least one, until the noise of the others is small enough."""
        while moves := self._moves(chosen):
            best = max(moves, key=lambda tensor: self._worth(chosen, tensor)) if len(moves) > 1 else moves[0]
            chosen |= self._tensors.open[best]
            if self._decibels(chosen) >= aim:
                break
        return chosen

    def _moves(self, chosen: Chosen) -> list[Node]:
        """Returns the candidates for the next tensor: those that seem best, by their sizes."""

        def seeming(tensor: Node) -> float:
            more = chosen | self._tensors.open[tensor]
            gain = self._decibels(more) - self._decibels(chosen)
            return gain / (1 + max(0.0, self._tensors.bytes(more) - self._tensors.bytes(chosen)))

        left = [tensor for tensor, calls in self._tensors.open.items() if not calls <= chosen]
        left = sorted(left, key=seeming, reverse=True)
        return left[: PRICED if len(self._prices) < MOST_PLANS else 1]

    def _worth(self, chosen: Chosen, tensor: Node) -> float:
        """Returns decibels per bytes and cycles, relative to those of the network."""
        more = chosen | self._tensors.open[tensor]
        before, after = self._price(chosen), self._price(more)
        if before is None or after is None:
            return -math.inf
        bytes_more = max(after.ram - before.ram, 0) / max(before.ram, 1)
        cycles_more = max(after.cycles - before.cycles, 0.0) / max(before.cycles, 1.0)
        return (self._decibels(more) - self._decibels(chosen)) / (bytes_more + CYCLES * cycles_more + 1e-3)

    def _by_size(self, chosen: Chosen) -> list[str]:
        """Returns the calls in the order of their size, the largest first."""
        return sorted(chosen, key=lambda name: (self._tensors.bytes(chosen - {name}), name))

    def _pruned(self, chosen: Chosen, aim: float) -> Chosen:
        """Removes calls that are not needed by the noise."""
        for name in self._by_size(chosen):
            if self._decibels(chosen - {name}) >= aim:
                chosen -= {name}
        return chosen

    def _given_back(self, chosen: Chosen) -> Chosen:
        """Removes calls that the bar itself does not need; a few of them are tried."""
        least, tries = self._first_threshold(), max(TRIED, MEASURES // max(1, len(self._tensors.reads)))
        for name in self._by_size(chosen):
            if tries > 0 and self._decibels(chosen - {name}) >= least:
                tries -= 1
                chosen -= {name} if self._holds(chosen - {name}) else set()
        return chosen

    # ---- facts about a choice ---------

    def _wide(self, chosen: Chosen) -> list[Node]:
        return [tensor for tensor, calls in self._tensors.open.items() if calls <= chosen]

    def _decibels(self, chosen: Chosen) -> float:
        return self._noise.decibels(set(self._wide(chosen)))

    def _price(self, chosen: Chosen) -> Price | None:
        if chosen not in self._prices:
            self._prices[chosen] = self._attempts.price(chosen)
        return self._prices[chosen]

    def _measure(self, chosen: Chosen) -> float:
        if chosen not in self._measured:
            self._measured[chosen], self._prices[chosen] = self._attempts.measure(chosen)
        return self._measured[chosen]

    def _confirm(self, chosen: Chosen) -> float:
        if chosen not in self._confirmed:
            self._confirmed[chosen] = self._attempts.confirm(chosen)
        return self._confirmed[chosen]

    def _holds(self, chosen: Chosen) -> bool:
        return self._measure(chosen) >= self._bar.least

    # ---- in words ----

    def _out_of_reach(self, every: Chosen) -> str:
        found, alone = (self._bar.shown(self._confirm(one)) for one in (every, frozenset[str]()))
        narrow = [call for call in self._tensors.reads if call.name not in every]
        others = f"; {len(narrow)} more have no int16 kernel or are fixed, like {describe(narrow[0])}" if narrow else ""
        return (
            f"{self._bar.option} is out of reach: {found} with all {len(every)} calls that can be in int16"
            f"{self._taken(every)}, {alone} in int8{self._taken(frozenset())}{others}.{self._held_back(every)} Weights "
            "have 8 bits in both: train with quantization (prepare_qat), or ask for less"
        )

    def _taken(self, chosen: Chosen) -> str:
        price = self._price(chosen)
        return "" if price is None else f" ({price.ram:,} bytes of RAM, {price.cycles:,.0f} cycles)"

    def _held_back(self, chosen: Chosen) -> str:
        """Names the remaining bottlenecks, once the tensors that can be wider are."""
        limits = self._attempts.limits(chosen)
        worst = [one for one in limits if one.kept <= limits[0].kept + TELLING][:TOLD]
        named = ", ".join(f"{one.what} ({one.kept:.1f} dB alone)" for one in worst if math.isfinite(one.kept))
        return f" It is held back by {named}." if named else ""

    def result(self, chosen: Chosen) -> Mixed:
        before, after = self._price(frozenset()), self._price(chosen)
        return Mixed(
            calls=chosen,
            tensors=tuple(self._rows(chosen)),
            bar=self._bar.option,
            reached=self._bar.shown(self._confirm(chosen)),
            before=self._bar.shown(self._confirm(frozenset())),
            ram=(0 if before is None else before.ram, 0 if after is None else after.ram),
        )

    def _rows(self, chosen: Chosen) -> Iterable[TensorPrecision]:
        wide = set(self._wide(chosen))
        shown = [node for node in dict.fromkeys(self._tensors.roots.values()) if self._is_activation(node)]
        for tensor in shown:
            element = WIDE if tensor in wide or tensor.name in chosen else wanted_element(tensor)
            yield TensorPrecision(tensor.name, module_path(tensor) or "", element, self._why(tensor, chosen, wide))

    def _is_activation(self, node: Node) -> bool:
        made = node in self._tensors.reads or (node.op == "placeholder" and node in self._tensors.readers)
        return made and is_float32(node)

    def _why(self, tensor: Node, chosen: Chosen, wide: Collection[Node]) -> str:
        if tensor in wide:
            gain = self._noise.decibels(wide) - self._noise.decibels(set(wide) - {tensor})
            return f"int16: +{gain:.1f} dB for {_size(tensor):,} bytes"
        if tensor.name in chosen:
            return "int16: made by a call that reads int16 codes, and read as int8"
        if tensor in self._tensors.open:
            more = {*wide, tensor}
            gain = self._noise.decibels(more) - self._noise.decibels(wide)
            return f"int8: int16 would give {gain:.1f} dB for {_size(tensor):,} bytes, and is not needed"
        return self._why_closed(tensor)

    def _why_closed(self, tensor: Node) -> str:
        if tensor in self._tensors.fixed:
            return "set by --state: it persists from call to call"
        calls = [*([tensor] if tensor in self._tensors.reads else []), *self._tensors.readers.get(tensor, [])]
        narrow = next((call for call in calls if not MAY_BE_WIDE.known(call)), None)
        return "as it was given" if narrow is None else f"no choice: {describe(narrow)} takes one element type only"
