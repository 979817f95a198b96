"""What the trainings share: their arguments, a seeded loop with a checkpoint, and the files that ship."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cortado.models import zoo
from cortado.models.zoo._trained import FOLDER as SHIPPED

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "training"
CHECKPOINT_SECONDS = 60.0
CALIBRATION_SAMPLES, TEST_SAMPLES = 100, 224  # that ship with a data set

Form = Callable[[Tensor], Tensor]
"""From samples as they are stored to a network's inputs."""
Batch = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
"""The inputs and targets of a step, drawn from that step's own generator."""


Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Task:
    """What a network is trained to do."""

    batch: Batch
    loss: Loss
    samples: int
    """Of one pass over the training data."""
    size: int
    """Of a batch."""

    def steps(self, epochs: int) -> int:
        return epochs * self.samples // self.size


def classes_task(inputs: Tensor, labels: Tensor, size: int) -> Task:
    """Classes of inputs that are drawn as they are."""

    def batch(_: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(len(inputs), (size,), generator=generator)
        return inputs[chosen], labels[chosen]

    return Task(batch, nn.functional.cross_entropy, len(inputs), size)


def parser(description: str | None) -> argparse.ArgumentParser:
    """--epochs, and --fresh to forget the checkpoint."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--epochs", type=int, help="passes over the training data, instead of as many as shipped")
    made.add_argument("--fresh", action="store_true", help="start anew instead of at the last checkpoint")
    return made


def train(
    name: str,
    model: nn.Module,
    task: Task,
    *,
    steps: int,
    rate: float,
    fresh: bool,
) -> None:
    """AdamW under one cycle of the learning rate. Every step is seeded by its number: to resume changes nothing."""
    BUILD.mkdir(parents=True, exist_ok=True)
    checkpoint = BUILD / f"{name}.pt"
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.2)
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    first = 0
    if checkpoint.exists() and not fresh:
        stored = torch.load(checkpoint, weights_only=True)
        if stored["steps"] == steps:
            first = stored["step"]
            for key, part in parts.items():
                part.load_state_dict(stored[key])
    model.train()
    written, cpu, average = time.monotonic(), time.process_time(), 0.0
    for step in range(first, steps):
        torch.manual_seed(step)  # dropout draws from the global generator
        inputs, targets = task.batch(step, torch.Generator().manual_seed(step))
        found = task.loss(model(inputs), targets)
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        schedule.step()
        average = found.item() if step == first else 0.98 * average + 0.02 * found.item()
        last = step + 1 == steps
        if last or (step + 1) % 100 == 0:
            print(f"step {step + 1} of {steps}, loss {average:.4f}, CPU {time.process_time() - cpu:.0f} s", flush=True)
        if last or time.monotonic() - written > CHECKPOINT_SECONDS:
            state = {key: part.state_dict() for key, part in parts.items()}
            partial = checkpoint.with_suffix(".partial")
            torch.save({"steps": steps, "step": step + 1, **state}, partial)
            partial.replace(checkpoint)
            written = time.monotonic()
    model.eval()


def channels_last(model: nn.Module) -> None:
    """Puts the weights of convolutions in the order that is faster on a CPU."""
    for parameter in model.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def outputs(model: nn.Module, inputs: Tensor) -> Tensor:
    """What the model in eval mode makes of many inputs."""
    return torch.cat([model.eval()(part) for part in inputs.split(256)])


def tested(model: nn.Module, inputs: Tensor, labels: Tensor, names: Sequence[str]) -> Tensor:
    """Which of the inputs are taken for what they are; tells how many of each class."""
    right = outputs(model, inputs).argmax(1) == labels
    for number, name in enumerate(names):
        print(f"{name}: {right[labels == number].float().mean():.3f} found")
    return right


@torch.no_grad()
def round_to_half(model: nn.Module) -> None:
    """The weights as they ship, in place: what is measured afterwards is what a user gets."""
    for key, value in model.state_dict().items():
        if value.is_floating_point():
            rounded = value.half().float()
            error = ((rounded - value).abs() / value.abs().clamp(min=1e-4)).max().item()
            if error > 2e-3:
                raise SystemExit(f"{key} does not fit 16 bits: relative error {error:.1e}")
            value.copy_(rounded)


def ship_weights(name: str, model: nn.Module) -> None:
    """trained/NAME.npz: every float of the state under its own key, in 16 bits."""
    floats = {key: value for key, value in model.state_dict().items() if value.is_floating_point()}
    write(name, {key: value.half().contiguous().numpy() for key, value in floats.items()})


def ship_samples(name: str, calibration: Tensor, inputs: Tensor, labels: Tensor, scale: float, offset: float) -> None:
    """trained/NAME.npz: the first samples as 8-bit codes; a value is code * scale + offset."""
    calibration, inputs, labels = calibration[:CALIBRATION_SAMPLES], inputs[:TEST_SAMPLES], labels[:TEST_SAMPLES]
    low = -128 if inputs.min() < offset else 0
    dtype = np.int8 if low else np.uint8

    def codes(values: Tensor) -> np.ndarray:
        return ((values - offset) / scale).round().clamp(low, low + 255).numpy().astype(dtype)

    write(
        name,
        {
            "calibration": codes(calibration),
            "inputs": codes(inputs),
            "labels": labels.numpy().astype(np.uint8),
            "scale": np.float32(scale),
            "offset": np.float32(offset),
        },
    )


def write(name: str, arrays: dict[str, Any]) -> None:
    SHIPPED.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(SHIPPED / f"{name}.npz", allow_pickle=False, **arrays)
    print(f"{name}.npz: {(SHIPPED / f'{name}.npz').stat().st_size:,} bytes")


def record(name: str, metric: str, shipped: float, samples: int, full: float, full_samples: int) -> None:
    """trained/accuracy.json: the float figure on the shipped test set, and on the full one."""
    path = SHIPPED / "accuracy.json"
    figures = json.loads(path.read_text()) if path.exists() else {}
    figures[name] = {
        "metric": metric,
        "float_accuracy": round(shipped, 4),
        "accuracy": None,  # in int8: not yet measured
        "samples": samples,
        "full_float_accuracy": round(full, 4),
        "full_samples": full_samples,
    }
    path.write_text(json.dumps(dict(sorted(figures.items())), indent=2) + "\n")
    print(f"{name}: {metric} {full:.4f} on {full_samples:,} samples, {shipped:.4f} on the {samples} that ship")


def finish_classifier(name: str, model: nn.Module, right: Tensor) -> None:
    """Ships the weights, and records how many of the full and of the shipped test samples they get right."""
    ship_weights(name, model)
    inputs, labels = zoo.get(name).test_set()
    shipped = outputs(model, inputs).argmax(1) == labels
    record(name, "accuracy", shipped.float().mean().item(), len(shipped), right.float().mean().item(), len(right))
