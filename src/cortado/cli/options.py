"""The Options of a compile, from its arguments."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortado.options import Options


def options_of(arguments: argparse.Namespace) -> "Options":
    from cortado.base.chips import find_chip
    from cortado.options import (
        Border,
        CalibrationMethod,
        InputLayout,
        LinearWeights,
        Optimize,
        Options,
        StreamPadding,
        parse_bytes,
    )

    ram, flash = arguments.ram_budget, arguments.flash_budget
    return Options(
        optimize=Optimize(arguments.optimize),
        io=Border(arguments.io),
        input_layout=InputLayout(arguments.input_layout),
        linear=LinearWeights(arguments.linear),
        calibration_method=CalibrationMethod(arguments.calibration_method),
        bias_correction=arguments.bias_correction,
        sequence=arguments.sequence,
        strict=arguments.strict,
        bundleio=arguments.bundleio,
        etrecord=arguments.etrecord,
        selftest=arguments.selftest,
        package=arguments.package,
        allow_float=arguments.allow_float,
        input_rows=arguments.input_rows,
        stream=arguments.stream,
        stream_padding=StreamPadding(arguments.stream_padding),
        ram_budget=None if ram is None else parse_bytes(ram),
        flash_budget=None if flash is None else parse_bytes(flash),
        chip=None if arguments.chip is None else find_chip(arguments.chip),
    )
