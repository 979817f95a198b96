"""The Python interface."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cortado
from cortado.api import Compiled, Options, prepare
from cortado.base.chips import find_chip
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.capture.inputs import check_batches
from cortado.options import Border, Optimize
from helpers.single import images, small_net


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return cortado.compile(small_net(), images()[0], target="cortex-m4", calibration=images())


def test_what_the_package_exports() -> None:
    for name in cortado.__all__:
        assert getattr(cortado, name) is not None
    assert set(dir(cortado)) == {*cortado.__all__, "api", "options"}  # what a prompt completes
    assert cortado.CortadoError is CortadoError
    assert cortado.Options is Options


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ("random", "calibration must be a sequence of inputs, each a tuple of tensors, .*; found 'random'"),
        (torch.zeros(3, 3, 8, 9), r"calibration batch 0 has shape \[3, 3, 8, 9\], expected \[1, 3, 8, 8\]"),
        (3, "calibration must be a sequence of inputs, .*; found a int"),
        ([(np.zeros((1, 3, 8, 8), np.float32),)], "calibration batch 0 must be a tuple of tensors, found ndarray"),
        ([np.zeros((1, 3, 8, 8), np.float32)], "calibration batch 0 must be a tuple of tensors, found ndarray"),
    ],
)
def test_calibration_of_the_wrong_kind_is_refused(calibration: Any, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        cortado.compile(small_net(), images()[0], target="cortex-m4", calibration=calibration)


def test_calibration_may_lie_in_one_tensor() -> None:
    """Along the first dimension, or stacked along one of its own, as in a file for the command line."""
    batches = images()
    joined, stacked = (how([batch[0] for batch in batches]) for how in (torch.cat, torch.stack))
    for given in (joined, [joined], [(joined,)], [joined[:2], *joined[2:].split(1)], stacked, [(stacked,)]):
        found = check_batches(given, batches[0])
        assert len(found) == len(batches) > 2
        assert all(torch.equal(a[0], b[0]) for a, b in zip(found, batches, strict=True))


def test_inputs_with_different_numbers_of_samples_are_refused() -> None:
    example = (torch.zeros(1, 2), torch.zeros(1, 3))
    with pytest.raises(CortadoError, match=r"calibration batch 0: .* different numbers of samples, found \[2, 4\]"):
        check_batches([(torch.zeros(4, 2), torch.zeros(2, 3))], example)


@pytest.mark.host
def test_a_numpy_array_may_be_run(compiled: Compiled) -> None:
    sample = images()[1][0]
    tensor, array = (compiled.run(value, on="host") for value in (sample, sample.numpy()))
    assert tensor.bit_exact
    assert array.bit_exact
    assert tensor.result.samples[0][0].tobytes() == array.result.samples[0][0].tobytes()


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (images()[0], r"found tuple; pass the tensors of a tuple one by one: run\(\*sample\)"),
        (3, "input 0 must be a tensor or a NumPy array, found int$"),
    ],
)
def test_what_can_not_be_run_is_refused(compiled: Compiled, value: Any, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        compiled.run(value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimize": "RAM"}, "optimize='RAM': expected one of 'ram', 'balanced', 'time', or cortado.options.Optimize"),
        ({"io": 8}, "io=8: expected one of 'int8', 'float', or cortado.options.Border"),
        ({"ram_budget": "4Q"}, "'4Q' is not a size; expected bytes, as in 262144, 256K or 1M"),
        ({"ram_budget": 4.5}, "ram_budget=4.5 is not a number of bytes; expected an int, a text such as '256K'"),
        ({"chip": 3}, "chip=3 is not a chip; expected a name such as 'stm32l4r5'"),
    ],
)
def test_options_of_the_wrong_kind_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        Options(**options)


def test_options_may_be_the_texts_of_the_command_line() -> None:
    told = Options(optimize="ram", io="float", ram_budget="4K", chip="rp2040")  # type: ignore[arg-type]
    assert told == Options(optimize=Optimize.RAM, io=Border.FLOAT, ram_budget=4096, chip=find_chip("rp2040"))


@pytest.mark.host
def test_what_is_printed_at_a_prompt_is_short(compiled: Compiled) -> None:
    shown = r"<Compiled \w+ for cortex-m4 in int8: [\d,]+ bytes RAM, [\d,]+ bytes weights, .*>"
    assert re.fullmatch(shown, repr(compiled))
    assert compiled._repr_html_().count("<tr>") >= 3
    run = compiled.run(images()[1][0], on="host")
    assert repr(run) == "<Checked: 1 sample on host, bit-exact>"
    assert len(repr(prepare(small_net(), images()[0], images(), name="net"))) < 120


def test_everything_public_is_short_at_a_prompt_and_a_table_in_a_notebook(compiled: Compiled, tmp_path: Path) -> None:
    artifact = compiled.save(tmp_path / "net")
    evaluation = compiled.evaluate(torch.cat([image for (image,) in images()]), model=small_net())
    estimate = cortado.estimate(small_net(), images()[0], chip="nrf52840")
    for value in (artifact, evaluation, estimate):
        assert len(repr(value)) < 120 + len(str(tmp_path)), value
        assert value._repr_html_().startswith("<table><caption>")
    assert re.fullmatch(
        r"<Estimate for nrf52840: .* bytes RAM, .* bytes flash, [\d,]+ cycles, [\d.]+ ms>", repr(estimate)
    )
    assert re.fullmatch(r"<Evaluation of \d+ samples: SQNR .* dB>", repr(evaluation))
    for inner in (compiled.report, compiled.bundle, compiled.planned, compiled.graph):
        assert len(repr(inner)) < 120
    assert repr(Options()) == "Options()"
    given = cortado.Options(optimize="ram", chip="nrf52840", package="zephyr,cmake")
    assert repr(given) == "Options(chip='nrf52840', optimize='ram', selftest=True, package='zephyr,cmake')"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"options": {"optimize": "ram"}}, r"options must be a cortado\.Options, .* found a dict"),
        ({"name": 3}, "name must be a text, found 3"),
        ({"example_inputs": None}, "example_inputs must be a tuple of tensors, found a NoneType"),
    ],
)
def test_arguments_of_a_wrong_kind_are_told_in_words(more: dict[str, Any], message: str) -> None:
    given = {
        "model": small_net(),
        "example_inputs": images()[0],
        "calibration": images(),
        "target": "cortex-m4",
        **more,
    }
    with pytest.raises(CortadoError, match=message):
        cortado.compile(**given)


def test_a_prepared_model_takes_a_target_by_name() -> None:
    model = prepare(small_net(), images()[0], images(), name="net")
    assert model.compile("cortex-m4").target == from_target_string("cortex-m4")
    with pytest.raises(CortadoError, match="unknown target 'cortex-m99'"):
        model.compile("cortex-m99")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ("a", "b", "c", "d") * 20,
            r"found 80 labels \(a, b, c, \.\.\.\), and outputs of shape \[1, .*\]; expected as",
        ),
        ("abcde", r"labels='abcde': expected a sequence of names"),
        ((1, 2, 3, 4, 5), "expected a sequence of names"),
    ],
)
def test_labels_that_no_output_fits_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        prepare(small_net(), images()[0], images(), labels=labels)


def test_progress_hears_phases_and_who_asks_for_them_counts() -> None:
    told: list[tuple[str, int, int]] = []
    phases: list[str] = []

    def hear(phase: str, done: int = 0, total: int = 0) -> None:
        told.append((phase, done, total))

    prepare(small_net(), images()[0], images(), progress=hear)
    prepare(small_net(), images()[0], images(), progress=phases.append)
    count = len(images())
    assert told == [("export", 0, 0), *(("quantize", done, count if done else 0) for done in range(count + 1))]
    assert phases == ["export", "quantize"]
