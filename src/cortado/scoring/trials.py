"""Advice on calibration data, tried on the quantized graph before it is printed, with its effect on the outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from cortado.base.element import USUAL
from cortado.base.findings import Finding, FindingKind
from cortado.frontend.precision.judgement import AGREES, SIGNAL, FloatRun
from cortado.frontend.precision.parts import OutputPart
from cortado.frontend.quantize.convert import Quantized
from cortado.frontend.quantize.prequantized import qparams_of
from cortado.scoring.blame import Alone, Cures, Reached, RoundedRange, Roundings, unsaturated

OUTPUTS = 4  # outputs that advice is tried on, at most
ABOUT_A_SAMPLE = (FindingKind.ODD_SAMPLE, FindingKind.LONE_SAMPLE, FindingKind.SATURATION)


def tried_findings(quantized: Quantized) -> list[Finding]:
    """Returns the findings of calibration, each with the effect of its advice."""
    if not any(one.kind in (FindingKind.FEW_CODES, *ABOUT_A_SAMPLE) for one in quantized.findings):
        return list(quantized.findings)
    trials = _Trials(quantized, Alone(quantized.converted))
    with torch.no_grad():
        said = [trials.sentence(one) for one in quantized.findings]
    found = zip(quantized.findings, said, strict=True)
    return [replace(one, text=f"{one.text}. {more}") if more else one for one, more in found]


@dataclass(frozen=True)
class _Trials:
    quantized: Quantized
    model: Alone

    def sentence(self, finding: Finding) -> str:
        """Describes the effect of a finding's advice; empty if it can't be tried."""
        if finding.kind is FindingKind.FEW_CODES:
            return self._wide()
        one = next((run for run in self.quantized.checked if run.number == finding.sample), None)
        others = [run for run in self.quantized.checked if run.usual and run is not one]
        if finding.kind not in ABOUT_A_SAMPLE or one is None or not others or self.model.initial:
            return ""  # a step of a sequence can't be left out
        pairs = list(zip(self._cures([one]), self._cures(others), strict=True))
        mine, theirs = pairs[0][0].reached(), pairs[0][1].reached()
        if finding.kind is FindingKind.ODD_SAMPLE:  # other odd ones are no longer left out either
            odd = [one, *(run for run in self.quantized.checked if not run.usual and run is not one)]
            wider = unsaturated(_joined(pairs[0][0].reached(odd), theirs))
            return self._of_both(pairs, "With --calibration-method minmax", wider, always=odd)
        return self._of_both(pairs, "Calibrated without that sample", _without(mine, theirs))

    @property
    def _parts(self) -> Sequence[OutputPart]:
        return self.quantized.parts.parts[:OUTPUTS]

    def _cures(self, runs: Sequence[FloatRun]) -> list[Cures]:
        real = [part.of(runs[0].outputs).is_floating_point() for part in self._parts]
        measures = [SIGNAL if one else AGREES for one in real]
        return [Cures(self.model, runs, *one) for one in zip(self._parts, measures, strict=True)]

    def _wide(self) -> str:
        """Tries 16 bits for the tensor with the fewest codes, and for the call that joins it with larger values."""
        places = [one for one in self.model.places if one.all_input_nodes[0].name in self.quantized.narrow]
        cures = self._cures(self.quantized.checked)
        option, others = cures[0].wide(places) if cures else ("", {})
        if not others:
            return ""
        then = [one.kept(others) for one in cures]
        helped = [number for number, one in enumerate(cures) if one.helps(then[number])]
        number = helped[0] if helped else min(range(len(cures)), key=lambda number: cures[number].now)
        name, now = _name(self._parts[number]), cures[number].shown(cures[number].now)
        if not helped:
            return f"16 bits for it ({option}) improve no output: {name} {now} with 8 bits"
        new = cures[number].told_of_new(others, then[number])
        return f"With {option} {name} {cures[number].shown(then[number])} (it {now} now, on the same samples{new})"

    def _of_both(
        self, pairs: Sequence[tuple[Cures, Cures]], what: str, others: Roundings, always: Sequence[FloatRun] = ()
    ) -> str:
        """Compares an advice's effect on the reported sample and on the others, for the first output that changes. New
        samples are like the others; the ranges include those of `always`."""
        then = [(one.kept(others), rest.kept(others)) for one, rest in pairs]
        changed = [
            number
            for number, (one, rest) in enumerate(pairs)
            if one.shown(one.now) != one.shown(then[number][0]) or rest.shown(rest.now) != rest.shown(then[number][1])
        ]
        if not changed:
            return f"{what} no output keeps more or less of its signal"
        number = changed[0]
        (one, rest), (of_one, of_rest) = pairs[number], then[number]
        return (
            f"{what} {_name(self._parts[number])} {one.shown(of_one)} for it (it {one.shown(one.now)} now) and "
            f"{rest.shown(of_rest)} for the others (it {rest.shown(rest.now)} now"
            f"{rest.told_of_new(others, of_rest, always)})"
        )


def _name(part: OutputPart) -> str:
    return f"output {part.output}" if part.box is None else f"part {part.where} of output {part.output}"


def _joined(mine: Reached, theirs: Reached) -> Reached:
    """Returns the union of both ranges of each tensor."""
    both = mine.keys() & theirs.keys()
    return {one: (min(mine[one][0], theirs[one][0]), max(mine[one][1], theirs[one][1])) for one in both}


def _without(mine: Reached, theirs: Reached) -> Roundings:
    """Returns ranges shrunk at each end by as much as the other samples fall short of the reported one."""
    found = {}
    for place in mine.keys() & theirs.keys():
        now = RoundedRange(*qparams_of(place).range, USUAL)
        then = now.without(mine[place], theirs[place])
        if then != now:
            found[place] = then
    return found
