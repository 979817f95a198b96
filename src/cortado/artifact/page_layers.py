"""The tables of report.html that go layer by layer: work and time, and quantization."""

from collections.abc import Sequence
from typing import Any

from cortado.artifact.html import Markup, Table, TableCell, note
from cortado.artifact.page_arena import modules_of
from cortado.artifact.report import LayerReport, Report, StateReport, TensorReport, WeightScalesReport
from cortado.base.element import INT8, element_of
from cortado.base.names import operator_base

_ESTIMATED = (
    "Estimated cycles come from a table of what kernels take. `cortado profile DIR --save` measures "
    "instructions and cycles and writes them here."
)


def layer_table(report: Report) -> Markup:
    """Shape, constants, products; estimated cycles until they are measured; decibels where they are known."""
    if not report.layers:
        return Markup("")
    spent = {} if report.profile is None else {one.name: one for one in report.profile.layers}
    kept = {} if report.fidelity is None else {one.name: one for one in report.fidelity.layers}
    measured: tuple[str, ...] = ("instructions", "cycles") if report.profile is not None else ("estimated cycles",)
    chip = _on_chip(report)
    measured += ("on the chip",) if chip else ()
    head = ("layer", "stage", "operator", "output", "weights, bytes", "products", *measured)
    head += ("SQNR",) if report.fidelity is not None else ()
    stages = () if report.schedule is None else report.schedule.stages
    where = {name: number for number, names in enumerate(stages) for name in names}
    cycles = {
        layer.name: spent[layer.name].cycles.typical if layer.name in spent else layer.estimated_cycles
        for layer in report.layers
    }
    most, modules = max(count or 0 for count in cycles.values()) or 1, modules_of(report)
    rows = []
    for layer in report.layers:
        row: list[Any] = [modules[layer.name], where.get(layer.name), operator_base(layer.operator)]
        row += [shape_text(layer.shape), layer.weights_bytes, layer.macs]
        if report.profile is not None:
            row.append(spent[layer.name].instructions if layer.name in spent else None)
        row.append(_cycles(cycles[layer.name], most))
        row += [chip.get(layer.name)] if chip else []
        if report.fidelity is not None:
            one = kept.get(layer.name)
            row.append("" if one is None else decibels(one.sqnr_db, exact=one.exact))
        rows.append(row)
    numbers = frozenset({1, *range(4, len(head))})
    table = Table(head, rows, numbers, foot=_sums(report, len(head)), sortable=True, name="layers").markup()
    return Markup(f"{table}\n{note(_profiled(report))}")


def _on_chip(report: Report) -> dict[str, int]:
    """The cycles that a chip behind a debug probe took for each layer."""
    found = None if report.profile is None else report.profile.measured
    names = (layer.name for layer in report.layers)
    return {} if found is None else dict(zip(names, found.layer_cycles, strict=False))


def _cycles(cycles: int | None, most: int) -> TableCell:
    return TableCell("not estimated", 0) if cycles is None else TableCell(f"{cycles:,}", cycles, share=cycles / most)


def _sums(report: Report, columns: int) -> Sequence[Any]:
    """Returns the sums of all columns; constants count once, as the bundle holds them, for layers may share them."""
    flash, profile = report.flash, report.profile
    row: list[Any] = ["all", None, "", "", None if flash is None else flash.weights_bytes, report.macs]
    if profile is not None:
        row += [profile.instructions, profile.cycles.typical]
    else:
        row.append(sum(layer.estimated_cycles or 0 for layer in report.layers))
    return row + [""] * (columns - len(row))


def _profiled(report: Report) -> str:
    profile, fidelity = report.profile, report.fidelity
    texts = [_ESTIMATED]
    if profile is not None:
        texts = [
            f"Instructions are exact, counted on the emulated board {profile.board}; the sum has what runs before "
            f"the first layer, too. Cycles are those of a model of the {profile.core} at zero wait states "
            f"(grade {profile.grade}), {profile.cycles.low:,} to {profile.cycles.high:,} in all."
        ]
    if fidelity is not None:
        count = f"{fidelity.samples:,} sample{'s' if fidelity.samples > 1 else ''}"
        texts.append(f"SQNR: signal to noise of a layer's output beside {fidelity.float_model} in float, on {count}.")
    else:
        texts.append("`cortado validate DIR --per-layer --save` adds how far each layer is from the float model.")
    return " ".join(texts)


def decibels(value: float | None, *, exact: bool) -> TableCell:
    if exact:
        return TableCell("exact", 1000.0)
    return TableCell("") if value is None else TableCell(f"{value:.1f} dB", value)


def shape_text(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))  # noqa: RUF001


# ---- quantization ---------------------------------------------------------------------------------------------------


def tensor_table(report: Report) -> Markup:
    """Returns what the C bundle reads and writes; of a .pte alone, what that does."""
    rows = [
        (
            f"{kind} {tensor.name}",
            str(list(tensor.model_shape)),
            str(list(tensor.shape)),
            tensor.dtype.value,
            *_codes(tensor),
        )
        for kind, tensors in (("input", report.inputs), ("output", report.outputs))
        for tensor in tensors
    ]
    rows += [
        (f"state {one.name}", str(list(one.shape)), str(list(one.shape)), one.dtype.value, *_codes(one))
        for one in report.state
    ]
    head = ("", "shape in the model", "shape here", "type", "scale", "zero point", "smallest", "largest")
    return Table(head, rows, frozenset(range(4, 8)), name="tensors").markup()


def quantization_table(report: Report) -> Markup:
    modules = modules_of(report)
    rows = [
        (
            modules[layer.name],
            operator_base(layer.operator),
            layer.element or "",
            *_codes(layer),
            *_weights(layer.weight_scales),
        )
        for layer in report.layers
        if layer.scale is not None
    ]
    head = (
        "layer",
        "operator",
        "type",
        "scale",
        "zero point",
        "smallest",
        "largest",
        "weight scales",
        "least",
        "most",
    )
    table = Table(head, rows, frozenset(range(3, 10)), sortable=True, name="quantization").markup()
    text = "A real value is scale * (code - zero point); smallest and largest are those that the codes can hold."
    return Markup(f"{table}\n{note(text)}") if rows else Markup("")


def _codes(value: TensorReport | StateReport | LayerReport) -> tuple[Any, ...]:
    """Scale, zero point, and the range of a tensor of codes. The codes of a tensor that a caller gives or gets as real
    numbers are those of int8: only the .pte has such."""
    scale, zero = value.scale, value.zero_point
    if scale is None or zero is None:
        return ("", "", "", "")
    shown, kind = TableCell(f"{scale:.9g}", scale), value.element if isinstance(value, LayerReport) else value.dtype
    if kind is None:
        return shown, zero, "", ""
    element = element_of(kind.value)
    low, high = ((code - zero) * scale for code in (INT8 if element.floating else element).codes)
    return shown, zero, TableCell(f"{low:.4g}", low), TableCell(f"{high:.4g}", high)


def _weights(scales: WeightScalesReport | None) -> tuple[Any, ...]:
    if scales is None:
        return ("", "", "")
    least, largest = (TableCell(f"{value:.4g}", value) for value in (scales.least, scales.largest))
    return scales.channels, least, largest
