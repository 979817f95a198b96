"""report.html: the report for people. One file, nothing loaded from anywhere, made from report.json's data alone."""

from collections.abc import Iterator, Sequence

from cortado.artifact.html import Markup, Table, TableCell, bullets, document, note, section
from cortado.artifact.page_arena import arena_map, peak_table
from cortado.artifact.page_layers import layer_table, quantization_table, tensor_table
from cortado.artifact.page_precision import precision_table
from cortado.artifact.page_spectrograms import spectrograms
from cortado.artifact.report import ChoiceReport, FloatOperatorReport, MemoryReport, Report
from cortado.artifact.summary import chosen_ranges
from cortado.base.codec import to_json
from cortado.base.names import html_text


def build_page(report: Report) -> str:
    title = f"{report.model} for {report.target}"
    head = f"<header><h1>{html_text(title)}</h1>\n{note(_subtitle(report))}</header>"
    foot = (
        f"<footer>Written by Cortado {html_text(report.cortado_version)}, from report.json beside this file.</footer>"
    )
    return document(title, [head, "<main>", *_body(report), "</main>", foot])


def _body(report: Report) -> Iterator[str]:
    yield warnings(report)
    yield cards(report)
    memory = report.memory
    if memory is not None:
        yield section("Arena", arena_map(report, memory))
        yield '<div class="two">'
        yield section("What lives at the peak", peak_table(report, memory))
        yield section("Other ways to optimize", _alternatives(memory), _single_targets(memory))
        yield "</div>"
    yield section("Layers", layer_table(report))
    yield section("Inputs and outputs", tensor_table(report))
    yield section("Spectra of the example input", spectrograms(report))
    yield section("Quantization", quantization_table(report))
    yield section("Precision", precision_table(report))
    yield section("In float", bullets([_float(item) for item in report.float_operators]))
    yield section("Why there is no C bundle", bullets(report.bundle_missing))
    yield section("Why there is no .pte", bullets(report.pte_missing))
    yield section("Notes", bullets([*report.pte_limits, *report.notes]))
    if report.calibrated is not None:
        yield section("Calibration", _candidates(report.calibrated))
    yield section("Options", _options(report))


def _subtitle(report: Report) -> str:
    texts = [f"--optimize {report.options.optimize.value}", f"{len(report.layers)} layers"]
    if report.schedule is not None:
        texts.append(f"{len(report.schedule.stages)} stages")
    if report.chip is not None:
        texts.append(f"{report.chip.name} at {report.chip.clock_hz / 1e6:g} MHz")
    if report.calibration is not None:
        texts.append(f"calibrated with {report.calibration.batches} inputs ({report.calibration.data})")
    return ", ".join(texts)


def warnings(report: Report) -> Markup:
    texts = [finding.text for finding in report.warnings]
    return Markup(f'<div class="warnings">\n{section("Warnings", bullets(texts))}\n</div>') if texts else Markup("")


# ---- the figures ----------------------------------------------------------------------------------------------------


def cards(report: Report) -> Markup:
    shown = "\n".join(
        f'<div class="card"><dt>{html_text(what)}</dt><dd class="figure">{html_text(figure)}</dd>'
        f'<dd class="more">{html_text(more)}</dd></div>'
        for what, figure, more in _figures(report)
    )
    return Markup(f'<dl class="cards">\n{shown}\n</dl>')


def _figures(report: Report) -> Iterator[tuple[str, str, str]]:
    """A name, the figure, and what else there is to say."""
    yield from _memory_figures(report)
    flash, pte, macs = report.flash, report.pte, report.macs
    if flash is not None:
        code = "code unknown without arm-none-eabi-gcc" if flash.code_bytes is None else f"{flash.code_bytes:,} of code"
        total = flash.weights_bytes + (flash.code_bytes or 0)
        yield "flash", f"{total:,} bytes", f"{flash.weights_bytes:,} of constants, {code}"
    if macs is not None:
        less = (
            f"; {report.removed_channels:,} channels that nothing needs were left out"
            if report.removed_channels
            else ""
        )
        yield "products", f"{macs:,}", f"multiply-accumulates of one inference{less}"
    yield from _time_figures(report)
    yield from _accuracy_figures(report)
    if pte is not None:
        yield ".pte", f"{pte.bytes:,} bytes", f"its arena: {pte.arena_bytes:,} bytes"


def _memory_figures(report: Report) -> Iterator[tuple[str, str, str]]:
    memory, stream = report.memory, report.stream
    if memory is not None:
        least = f"no plan of these stages can need less than {memory.lower_bound_bytes:,}"
        proof = "no plan of these stages needs less" if memory.optimal else least
        yield "RAM: the arena", f"{memory.arena_bytes:,} bytes", f"inputs and outputs included; {proof}"
        if memory.stack_bytes is not None:
            yield "RAM: the stack", f"{memory.stack_bytes:,} bytes", "of one call, interrupts not counted"
    if report.state:
        names = ", ".join(one.name for one in report.state)
        yield "state", f"{sum(one.bytes for one in report.state):,} bytes", f"last from call to call: {names}"
    if stream is not None:
        yield "lasts from row to row", f"{stream.state_bytes:,} bytes", f"of the arena; {stream.windows.in_words}"


def _time_figures(report: Report) -> Iterator[tuple[str, str, str]]:
    profile, longest = report.profile, report.longest_call
    if longest is not None:
        yield (
            "longest kernel call",
            f"{longest.cycles:,} cycles",
            f"estimated: {longest.layer}; CORTADO_YIELD is between",
        )
    if profile is None:
        estimates = [layer.estimated_cycles for layer in report.layers if layer.estimated_cycles is not None]
        if estimates:
            left = len(report.layers) - len(estimates)
            of = f"of {len(estimates)} kernels, {left} are not estimated" if left else "of the kernels"
            yield "estimated cycles", f"{sum(estimates):,}", f"{of}; not measured yet (cortado profile --save)"
        return
    more = f"{profile.instructions:,} instructions; {profile.cycles.low:,} to {profile.cycles.high:,} cycles"
    yield "cycles", f"{profile.cycles.typical:,}", f"{more}, a model of the {profile.core}"
    if profile.measured is not None:
        chip = profile.measured
        least = min((chip.first_cycles, *chip.later_cycles))
        yield "measured cycles", f"{least:,}", f"{chip.first_cycles:,} in the first run; {chip.core}, {chip.conditions}"
    if profile.clock_hz is not None:
        low, typical, high = (1000 * count / profile.clock_hz for count in vars(profile.cycles).values())
        yield (
            "time",
            f"{typical:.4g} ms",
            f"{low:.4g} to {high:.4g} ms, {profile.chip} at {profile.clock_hz / 1e6:g} MHz",
        )


def _accuracy_figures(report: Report) -> Iterator[tuple[str, str, str]]:
    found = report.evaluation
    if found is None:
        return
    for what, value, before, style in (
        ("accuracy", found.accuracy, found.float_accuracy, ".2%"),
        ("AUC", found.auc, found.float_auc, ".4f"),
    ):
        if value is not None:
            beside = "" if before is None else f"{before:{style}} in float, "
            yield what, f"{value:{style}}", f"{beside}{found.samples:,} samples"
    if found.exact or found.sqnr_db is not None:
        figure = "exact" if found.exact else f"{found.sqnr_db:.1f} dB"
        yield "SQNR of the outputs", figure, f"beside the float model, {found.samples:,} samples"


# ---- the small tables -----------------------------------------------------------------------------------------------


def _options(report: Report) -> Markup:
    options = {
        f"--{name.replace('_', '-')}": ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in to_json(report.options).items()
    }
    return Table(("option", "value"), list(options.items()), name="options").markup()


def _candidates(chosen: ChoiceReport) -> Markup:
    """Each with the output that keeps least."""
    rows = [(one.method.value, one.corrected_layers, _least(one.outputs_db)) for one in chosen.candidates]
    text = f"Judged by {chosen.samples} calibration samples. Chosen: {chosen_ranges(chosen)}."
    table = Table(
        ("ranges", "layers with corrected biases", "dB of the worst output"), rows, frozenset({1, 2})
    ).markup()
    return Markup(f"{table}\n{note(text)}")


def _least(kept: Sequence[float | None]) -> str:
    known = [one for one in kept if one is not None]
    return f"{min(known):.1f}" if known else "-"


def _alternatives(memory: MemoryReport) -> Markup:
    rows = [
        (f"--optimize {optimize.value}", other.arena_bytes, other.row_calls)
        for optimize, other in memory.alternatives.items()
    ]
    text = "Row calls: how often a kernel is called for one inference, each time for one or a few rows of its output."
    table = Table(("", "arena, bytes", "row calls"), rows, frozenset({1, 2})).markup()
    return Markup(f"{table}\n{note(text)}")


def _single_targets(memory: MemoryReport) -> Markup:
    single = memory.single_targets
    if not single:
        return Markup("")
    rows = [(target, TableCell(f"{size:,}", size)) for target, size in single.items()]
    return Table(("compiled for one core", "arena, bytes"), rows, frozenset({1})).markup()


def _float(item: FloatOperatorReport) -> str:
    where = f" at {item.source}" if item.source else ""
    return f"{item.operator}{where}: {item.reason}"
