"""Limits of the tables and descriptors of a C bundle: their fields are small, to be small."""

from collections.abc import Mapping

from cortado.base.errors import TooLarge
from cortado.plan.program import Port, Program, Step

MOST_TAPS = (1 << 8) - 1  # rows of a window, its stride, dilation and padding
MOST_ROWS = (1 << 16) - 1
MOST_SHORT = (1 << 15) - 1
# What descriptors hold in 16 bits and a model's author chooses.
SHORT_FIELDS = frozenset({"depth_multiplier", "kernel_h", "kernel_w", "stride_w", "pad_left", "dilation_w"})


def check_limits(program: Program, lines: Mapping[str, str]) -> None:
    """Refuses a step that no table can hold, by its name and the line it comes from."""
    for step in program.steps:
        line = lines.get(step.name)
        where = f"{step.name} ({step.operator})" + (f" at {line}" if line else "")
        for what, found, most in _numbers(step, program.stream is not None):
            if found > most:
                raise TooLarge(
                    f"{where}: {what} of {found} is too large for the tables of a C bundle, expected at most {most}; "
                    "split the layer in two, or compile for a .pte alone (--artifacts pte)"
                )


def _numbers(step: Step, endless: bool) -> list[tuple[str, int, int]]:
    """(what it is, its size, the largest that fits) for every number of a step."""
    found = [number for port in step.inputs for number in _window(port, endless)]
    if not endless:
        found.append(("a number of rows", step.rows, MOST_ROWS))
    for kernel in step.kernels.values():
        fields = {name: value for name, value in kernel.fields.items() if name in SHORT_FIELDS}
        found += [(f"a {name}", value, MOST_SHORT) for name, value in fields.items() if isinstance(value, int)]
    return found


def _window(port: Port, endless: bool) -> list[tuple[str, int, int]]:
    rule = port.rule
    found = [
        ("a window's height", rule.taps, MOST_TAPS),
        ("a window's vertical stride", rule.stride, MOST_TAPS),
        ("a window's vertical dilation", rule.dilation, MOST_TAPS),
    ]
    if not endless:
        found += [("a window's padding above", rule.pad, MOST_TAPS), ("a number of rows", port.height, MOST_ROWS)]
    return found
