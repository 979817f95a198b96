"""Several methods of one module: one arena, constants once, and state that they share, beside the module itself."""

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado import Options
from cortado.base.errors import CortadoError
from cortado.base.target import BUNDLE_FLAGS
from cortado.emit.c.bundle import emit_methods
from cortado.emit.image.files import image_sources
from cortado.emit.image.thunks import table_text
from cortado.emit.image.writer import emit_image
from cortado.emit.pte.delegate import emit_delegates
from cortado.methods import CompiledMethods, touched
from cortado.options import Artifacts, PteKind
from cortado.pte.reader import read_pte_file
from cortado.run import toolchain
from cortado.run.executorch_host import DelegateKernels, run_pte
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.cli import Run

pytestmark = [
    pytest.mark.host,
    pytest.mark.xdist_group("methods"),
    pytest.mark.filterwarnings("ignore::cortado.CortadoWarning"),
]


class Taught(nn.Module):
    """Sums of features by class, taught on the device; the answer is their product with the features."""

    sums: Tensor
    counts: Tensor
    still: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU())
        self.register_buffer("still", torch.linspace(0.5, 1.0, 8))  # that no method changes
        self.register_buffer("sums", torch.zeros(4, 8, dtype=torch.int32))
        self.register_buffer("counts", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (self.features(x) * self.still) @ self.sums.float().t(), self.counts

    def learn(self, x: Tensor, label: Tensor) -> None:
        found = torch.round(self.features(x) * 16.0).clamp(0, 127).to(torch.int32)
        hot = (torch.arange(4) == label).to(torch.int32)
        self.sums = self.sums + hot.reshape(4, 1) * found
        self.counts += hot

    def forget(self, label: Tensor) -> None:
        kept = (torch.arange(4) != label).to(torch.int32)
        self.sums *= kept.reshape(4, 1)
        self.counts = self.counts * kept

    def clear(self) -> None:
        self.sums.zero_()
        self.counts = torch.zeros_like(self.counts)


def _calls(count: int, seed: int) -> list[tuple[Any, ...]]:
    random = torch.Generator().manual_seed(seed)
    calls: list[tuple[Any, ...]] = []
    for number in range(count):
        label = torch.randint(0, 4, (1,), generator=random)
        calls += [("learn", torch.randn(1, 16, generator=random), label)]
        calls += [("forward", torch.randn(1, 16, generator=random))]
        calls += [("forget", label)] if number % 5 == 4 else [("clear",)] if number % 11 == 10 else []
    return calls


METHODS = {
    "forward": (torch.zeros(1, 16),),
    "learn": (torch.zeros(1, 16), torch.tensor([1])),
    "forget": (torch.tensor([1]),),
    "clear": (),
}


@pytest.fixture(scope="module")
def taught() -> CompiledMethods:
    return cortado.compile_methods(Taught().eval(), METHODS, "cortex-m4", _calls(40, 1), name="taught")


def test_calls_of_all_methods_give_the_references_bits_and_the_modules_counts(taught: CompiledMethods) -> None:
    calls = _calls(30, seed=7)
    done = taught.run(calls, on="host")
    assert done.bit_exact
    in_wasm = taught.run(calls[:12], on="wasm")
    assert in_wasm.on == "wasm"
    assert in_wasm.bit_exact
    running = copy.deepcopy(Taught().eval())
    for (name, *values), outputs in zip(calls, done.outputs, strict=True):
        with torch.no_grad():
            expected = getattr(running, name)(*values)
        if name == "forward":
            assert np.array_equal(outputs[1], expected[1].numpy())  # what others left, exactly
            error = np.abs(outputs[0] - expected[0].numpy()).max()
            assert error <= 0.1 * max(float(expected[0].abs().max()), 40.0)
        else:
            assert outputs == ()


def _c_type(values: Any) -> str:
    return "float" if values.dtype == np.float32 else f"{values.dtype}_t"


def test_the_example_of_the_readme_calls_every_method(taught: CompiledMethods, tmp_path: Path) -> None:
    """It is compiled as it stands, and what it gives for calls in a row is what the reference gives."""
    files = emit_methods(list(taught.planned_for_host().values()), [None] * len(METHODS)).files
    write_files(tmp_path, files)
    readme = files["README.md"]
    found = re.search(r"```c\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    assert "int call_learn(const int8_t *input0, const int32_t *input1)" in found[1]
    assert "| INPUT1 | label | int32 | [1] as in the model |" in readme
    calls = _calls(12, seed=9)
    given, expected = taught.reference(calls)
    results = ["scores", "counts"]
    lines = [f"static {_c_type(value)} {name}[{value.size}];" for name, value in zip(results, expected[1], strict=True)]
    lines += ["start();"]
    for number, ((name, *_), inputs) in enumerate(zip(calls, given, strict=True)):
        names = [f"in{number}_{at}" for at in range(len(inputs))]
        for one, value in zip(names, inputs, strict=True):
            lines.append(f"static const {_c_type(value)} {one}[] = {{{', '.join(map(str, value.reshape(-1)))}}};")
        outputs = results if name == "forward" else []
        call = "infer" if name == "forward" else f"call_{name}"
        lines.append(f"if ({call}({', '.join((*names, *outputs))}) != 0) {{ return 1; }}")
        lines += [f"fwrite({one}, 1, sizeof {one}, stdout);" for one in outputs]
    main = "\n    ".join(["int main(void)\n{", *lines, "return 0;"])
    (tmp_path / "example.c").write_text(f"{found[1]}\n#include <stdio.h>\n\n{main}\n}}\n")
    sources, flags = bundle_sources(tmp_path, "c"), [*WARNINGS, *BUNDLE_FLAGS]
    program = toolchain.build_executable(sources, bundle_includes(tmp_path), flags, "example")
    wanted = b"".join(value.tobytes() for outputs in expected for value in outputs)
    assert subprocess.run([program], check=True, capture_output=True).stdout == wanted


@pytest.mark.qemu
@pytest.mark.cases(1)
@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m0plus", "cortex-m33"])
def test_boards_run_calls_of_all_methods_bit_for_bit(target: str) -> None:
    compiled = cortado.compile_methods(Taught().eval(), METHODS, target, _calls(40, 1), name="taught")
    assert compiled.run(_calls(12, seed=8)).bit_exact


def test_state_has_the_same_place_in_all_methods_and_activations_share_the_rest(taught: CompiledMethods) -> None:
    places = [
        {kept.name: one.plan.offsets[kept.tensor.buffer] for kept in one.program.state}
        for one in taught.planned.values()
    ]
    assert all(one == places[0] == {"counts": 0, "sums": 16} for one in places)
    state = 16 + 128 + 4
    alone = [
        max(one.plan.offsets[name] + one.program.buffers[name].size for name in one.program.buffers)
        for one in taught.planned.values()
    ]
    assert {one.plan.peak for one in taught.planned.values()} == {max(one.plan.peak for one in taught.planned.values())}
    assert state < max(alone) <= taught.to_json()["arena_bytes"] < sum(alone)


def test_constants_of_two_methods_are_there_once(taught: CompiledMethods) -> None:
    each = {name: one.bundle for name, one in taught.methods.items()}
    assert each["learn"] is not None
    assert each["forward"] is not None
    weights = [one.name for one in taught.bundle.constants if "features_0" in one.name]
    assert weights == ["taught__features_0_weights"]  # of the first layer, which both read alike
    assert taught.bundle.weights_bytes < each["learn"].weights_bytes + each["forward"].weights_bytes - 16 * 12


def test_methods_are_not_combined_with_other_models(taught: CompiledMethods, tmp_path: Path) -> None:
    with pytest.raises(CortadoError, match="expected compiled models of one method each, found CompiledMethods"):
        cortado.save_together([taught], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_headers_have_a_function_for_each_method(taught: CompiledMethods) -> None:
    files = taught.bundle.files
    assert "int taught_run(taught_arena_t *arena);" in files["taught.h"]
    assert "uint32_t taught_save(" in files["taught.h"]
    for name in ("learn", "forget", "clear"):
        assert f'#include "taught_{name}.h"' in files["taught.h"]
        assert f"int taught_{name}(taught_arena_t *arena);" in files[f"taught_{name}.h"]
        assert "_save(" not in files[f"taught_{name}.h"]


def test_only_what_a_method_changes_is_state() -> None:
    found = touched(Taught().eval(), METHODS)
    assert {name: one.read for name, one in found.items() if name != "clear"} == dict.fromkeys(
        ("forward", "learn", "forget"), ("sums", "counts")
    )
    assert found["clear"].written == ("sums", "counts")
    assert found["forward"].written == ()
    assert found["learn"].written == found["forget"].written == ("sums", "counts")


class Coder(nn.Module):
    """An encoder and its decoder: no state, and weights of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.inner, self.outer = nn.Conv2d(1, 4, 3, 2, 1), nn.ConvTranspose2d(4, 1, 2, 2)

    def encode(self, picture: Tensor) -> Tensor:
        return torch.relu(self.inner(picture))

    def decode(self, code: Tensor) -> Tensor:
        return torch.sigmoid(self.outer(code))


def test_encoder_and_decoder_share_an_arena_without_state() -> None:
    model, random = Coder().eval(), torch.Generator().manual_seed(4)
    pictures = torch.rand(40, 1, 1, 8, 8, generator=random)
    calls = [call for one in pictures for call in (("encode", one), ("decode", model.encode(one).detach()))]
    methods = {"encode": (pictures[0],), "decode": (model.encode(pictures[0]).detach(),)}
    compiled = cortado.compile_methods(model, methods, "cortex-m4", calls, name="coder")
    done = compiled.run(calls[:10], on="host")
    assert done.bit_exact
    assert np.abs(done.outputs[0][0] - calls[1][1].numpy()).max() < 0.02
    assert "coder_reset" not in compiled.bundle.files["coder.h"]
    assert "int coder_decode(" in compiled.bundle.files["coder_decode.h"]


class Talker(nn.Module):
    """A language model of a few words: prefill takes four at once, decode one more; what was said is kept as ids."""

    said: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.words, self.out = nn.Embedding(20, 12), nn.Linear(12, 20)
        self.register_buffer("said", torch.zeros(1, 8, dtype=torch.int64))

    def _next(self) -> Tensor:
        scores: Tensor = self.out(self.words(self.said).mean(1))
        return scores

    def prefill(self, ids: Tensor) -> Tensor:
        self.said = torch.cat([self.said[:, 4:], ids], 1)
        return self._next()

    def decode(self, word: Tensor) -> Tensor:
        self.said = torch.cat([self.said[:, 1:], word], 1)
        return self._next()


def test_prefill_and_decode_go_on_with_each_others_words() -> None:
    model, random = Talker().eval(), torch.Generator().manual_seed(6)
    calls: list[tuple[Any, ...]] = []
    for _ in range(36):
        calls.append(("prefill", torch.randint(0, 20, (1, 4), generator=random)))
        calls += [("decode", torch.randint(0, 20, (1, 1), generator=random)) for _ in range(2)]
    methods = {name: values for name, *values in calls[:2]}
    compiled = cortado.compile_methods(model, methods, "cortex-m4", calls, name="talker")
    done = compiled.run(calls[:18], on="host")
    assert done.bit_exact
    running = copy.deepcopy(model)
    for (name, *values), (found,) in zip(calls[:18], done.outputs, strict=True):
        assert np.abs(found - getattr(running, name)(*values).detach().numpy()).max() < 0.05
    tables = [one for one in compiled.bundle.constants if one.bytes >= 20 * 12]
    assert sum(one.bytes for one in tables) < 2 * (20 * 12 + 20 * 12 + 20 * 12)  # not for each method


def test_a_folder_has_the_program_and_each_method_by_itself(taught: CompiledMethods, tmp_path: Path, run: Run) -> None:
    taught.save(tmp_path / "taught")
    done = run("run", tmp_path / "taught", "--method", "learn", "--on", "host")
    assert (done.code, "bit-exact" in done.out) == (0, True)
    wrong = run("run", tmp_path / "taught", "--method", "teach")
    assert wrong.code == 2
    assert "expected one of clear, forget, forward, learn" in wrong.err
    assert run("run", tmp_path / "taught").code == 2


def test_command_line_compiles_a_file_with_methods(tmp_path: Path, run: Run) -> None:
    (tmp_path / "counter.py").write_text(
        """import torch

class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int32))
    def forward(self):
        return self.count + 0
    def add(self, x):
        self.count += x

ModelUnderTest = Counter().eval()
ModelMethods = {"forward": (), "add": (torch.tensor([1]),)}
ModelCalls = [("add", torch.tensor([3])), ("forward",)] * 3
"""
    )
    done = run("compile", tmp_path / "counter.py", "-t", "cortex-m4", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert "int counter_add(" in (tmp_path / "out" / "counter_add.h").read_text()
    facts = json.loads((tmp_path / "out" / "together.json").read_text())
    page = (tmp_path / "out" / "report.html").read_text()
    pages = re.findall(r'href="(methods/[^"]*)"', page)
    assert pages == ["methods/forward/report.html", "methods/add/report.html"]
    assert all((tmp_path / "out" / one).is_file() for one in pages)
    assert all(f"{one['cycles']:,}" in page and f"{one['function']}()" in page for one in facts["methods"].values())
    assert f"{facts['arena_bytes']:,}" in page
    estimated = run("estimate", tmp_path / "counter.py", "--chip", "stm32l4r5", "--json")
    assert estimated.code == 0, estimated.err
    found = {one["model"]: one for one in json.loads(estimated.out)}
    assert set(found) == {"counter.forward", "counter.add"}
    for name, one in found.items():
        assert one["cycles"] == facts["methods"][name.partition(".")[2]]["cycles"] > 0
        assert one["ram_bytes"] == facts["arena_bytes"]
        assert one["fits"]
        assert one["code_bytes"] > 500, "that of both methods"
    alone = run("estimate", tmp_path / "counter.py", "-t", "cortex-m4", "--method", "add")
    assert alone.out.startswith("counter.add for cortex-m4, estimated")
    unknown = run("estimate", tmp_path / "counter.py", "-t", "cortex-m4", "--method", "sub")
    assert "--method sub: counter has forward, add" in unknown.err
    plain = run("estimate", "ds_cnn", "-t", "cortex-m4", "--method", "add")
    assert "--method is for a file with ModelMethods (docs/methods.md), found ds_cnn" in plain.err


class Learner(nn.Module):
    """A frozen network, and behind it a layer that learns by gradients: parameters and momentum are real state."""

    weight: Tensor
    speed: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Linear(16, 8), nn.ReLU())
        self.register_buffer("weight", torch.randn(4, 8) * 0.1)
        self.register_buffer("speed", torch.zeros(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(nn.functional.linear(self.features(x), self.weight), -1)

    def learn(self, x: Tensor, hot: Tensor) -> None:
        found = self.features(x)
        wrong = torch.softmax(nn.functional.linear(found, self.weight), -1) - hot
        self.speed = self.speed * 0.9 + wrong.t() @ found
        self.weight = self.weight - 0.05 * self.speed

    def place(self, weight: Tensor) -> None:
        self.weight = weight * 2.0

    def clear(self) -> None:
        self.weight.zero_()
        self.speed.zero_()


def test_real_state_is_float32_and_so_is_what_is_computed_from_it() -> None:
    def calls(count: int, seed: int) -> list[tuple[Any, ...]]:
        random = torch.Generator().manual_seed(seed)
        made: list[tuple[Any, ...]] = [("clear",), ("place", torch.randn(4, 8, generator=random).sign() * 0.1)]
        for _ in range(count):
            hot = nn.functional.one_hot(torch.randint(0, 4, (1,), generator=random), 4).float()
            made += [("learn", torch.randn(1, 16, generator=random), hot)]
            made += [("forward", torch.randn(1, 16, generator=random))]
        return made

    x = torch.zeros(1, 16)
    methods = {"forward": (x,), "learn": (x, torch.zeros(1, 4)), "place": (torch.zeros(4, 8),), "clear": ()}
    compiled = cortado.compile_methods(Learner().eval(), methods, "cortex-m4", calls(30, 1), name="learner")
    layers = {layer.module: layer.element for layer in compiled.methods["learn"].report.layers if layer.module}
    assert {name: kind and kind.value for name, kind in layers.items()} == {"features.0": "int8"}
    assert [kept.initial.dtype for kept in compiled.graphs["clear"].state] == [torch.float32] * 2
    given = calls(20, 2)
    done = compiled.run(given, on="host")
    assert done.bit_exact
    running = Learner().eval()
    for (name, *values), outputs in zip(given, done.outputs, strict=True):
        with torch.no_grad():
            expected = getattr(running, name)(*values)
        if expected is not None:
            assert np.abs(outputs[0] - expected.numpy()).max() < 0.02


class Odd(nn.Module):
    """Methods that can't be compiled."""

    level: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("level", torch.zeros(1, dtype=torch.float16))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        return x * 2.0

    def follow(self, x: Tensor) -> Tensor:
        self.level = (0.5 * self.level + x).half()
        return self.level

    def input(self, x: Tensor) -> Tensor:
        return x * 3.0

    def many(self, *x: Tensor) -> Tensor:
        return x[0]


X = torch.zeros(1)
CALLS = [("forward", torch.full((1,), 0.1 * one)) for one in range(-20, 20)]


@pytest.mark.parametrize(
    ("methods", "calls", "options", "message"),
    [
        ({}, CALLS, {}, "no methods were given"),
        ({"forward": (X,), "teach": (X,)}, CALLS, {}, "Odd has no method 'teach'"),
        ({"forward": (X, X)}, CALLS, {}, r"takes 1 inputs \(x\), found 2 examples"),
        ({"many": (X,)}, CALLS, {}, r"takes \*args"),
        ({"forward": (X,), "follow": (X,)}, CALLS, {}, "the buffer 'level' is float16"),
        (
            {"forward": (X,)},
            [("learn", X)],
            {},
            r"expected a tuple that begins with the name of a method \('forward'\)",
        ),
        ({"forward": (X,)}, [("forward", torch.zeros(2))], {}, r"shapes \[\(2,\)\], expected \[\(1,\)\]"),
        ({"forward": (X,), "input": (X,)}, CALLS, {}, "no calibration call of 'input'"),
        (
            {"forward": (X,)},
            CALLS,
            {"artifacts": Artifacts.PTE},
            "several are one C bundle, with pte='delegate' a .pte too",
        ),
        ({"forward": (X,), "input": (X,)}, [*CALLS, *(("input", *one[1:]) for one in CALLS)], {}, "odd_input in C"),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, str) else "",
)
def test_what_is_no_model_of_methods_is_refused(
    methods: dict[str, Any], calls: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CortadoError, match=message):
        cortado.compile_methods(Odd().eval(), methods, "cortex-m4", calls, options=Options(**options))


class Pair(nn.Module):
    """Two methods behind the same layers, without state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Linear(10, 12), nn.ReLU())
        self.classes, self.value = nn.Linear(12, 4), nn.Linear(24, 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.classes(self.features(x))
        return result

    def compare(self, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = self.value(torch.cat([self.features(x), self.features(y)], 1))
        return result


DELEGATE = Options(pte=PteKind.DELEGATE)


def test_methods_without_state_are_methods_of_one_executorch_program(tmp_path: Path) -> None:
    x, generator = torch.zeros(1, 10), torch.Generator().manual_seed(1)
    draws = [[torch.randn(1, 10, generator=generator) for _ in range(3)] for _ in range(40)]
    calls = [call for a, b, c in draws for call in (("forward", a), ("compare", b, c))]
    taken = {"forward": (x,), "compare": (x, x)}
    compiled = cortado.compile_methods(Pair().eval(), taken, "cortex-m55", calls, name="pair", options=DELEGATE)
    compiled.save(tmp_path / "out")
    assert (tmp_path / "out" / "executorch" / "delegate.cpp").is_file()
    info = read_pte_file(tmp_path / "out" / "pair.pte")
    assert [one.name for one in info.methods if one.delegates] == ["compare", "forward"]
    images = {name: (one, emit_image(one)) for name, one in compiled.planned_for_host().items()}
    sources = image_sources({source for _, image in images.values() for source in image.sources})
    table = table_text({one.id: one for _, image in images.values() for one in image.thunks}.values())
    data = emit_delegates(images, {}).data
    given, expected = compiled.reference(calls[:6])
    for (name, *_), inputs, wanted in zip(calls, given, expected, strict=False):
        found = run_pte(data, [inputs], delegate=DelegateKernels(table, tuple(sources)), method_name=name)
        np.testing.assert_array_equal(found[0][0], wanted[0])


def test_a_program_of_executorch_has_no_state_for_several_methods() -> None:
    with pytest.raises(
        CortadoError, match=r"2 buffers that methods change \(.*\): the methods of a .pte share no state"
    ):
        cortado.compile_methods(Taught().eval(), METHODS, "cortex-m4", _calls(12, 0), options=DELEGATE)
