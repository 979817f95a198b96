"""A compiled model in a folder: written whole or not at all, read back, run and checked against its reference."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cortado.errors import CortadoError
from cortado.runner import IO, ArrayType, BundleInfo, RunResult, run_bundle
from cortado.target import from_target_string

REPORT, REFERENCE, EXAMPLE = "report.json", "reference.npz", "example.npz"


def write_folder(folder: Path, files: Mapping[str, str | bytes], report: Mapping[str, Any]) -> None:
    """Writes beside the folder first and renames at the end, so a failure leaves nothing half-written."""
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise CortadoError(f"can't write to {folder}: it is a file, expected a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / REPORT).is_file():
        raise CortadoError(
            f"can't write to {folder}: it holds files that are not a compiled model; choose another folder"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise CortadoError(f"can't write to {folder}: {error.strerror}; choose a folder you may write to") from error
    try:
        _write_all(temporary, files, report)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(temporary, folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CortadoError(f"can't write to {folder}: {error.strerror}") from error


def _write_all(folder: Path, files: Mapping[str, str | bytes], report: Mapping[str, Any]) -> None:
    digests = {}
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digests[name] = hashlib.sha256(data).hexdigest()
    text = json.dumps({**report, "artifacts": dict(sorted(digests.items()))}, indent=2)
    (folder / REPORT).write_text(text + "\n")
    folder.chmod(0o755)


@dataclass(frozen=True)
class Checked:
    """A run and what the reference says it must give."""

    result: RunResult
    expected: list[list[ArrayType]]

    @property
    def bit_exact(self) -> bool:
        pairs = zip(self.result.samples, self.expected, strict=True)
        return all(np.array_equal(a, b) for got, want in pairs for a, b in zip(got, want, strict=True))


@dataclass(frozen=True)
class Artifact:
    """A compiled model on disk."""

    folder: Path
    report: Mapping[str, Any]

    @staticmethod
    def open(folder: Path) -> "Artifact":
        path = folder / REPORT
        if not folder.is_dir():
            raise CortadoError(f"{folder} is not a folder; expected one that `cortado compile` wrote")
        if not path.is_file():
            raise CortadoError(f"{folder} holds no {REPORT}; expected a folder that `cortado compile` wrote")
        try:
            report = json.loads(path.read_text())
        except (ValueError, OSError) as error:
            raise CortadoError(f"{path} can't be read ({error}); compile the model again") from error
        artifact = Artifact(folder, report)
        artifact.check_files()
        return artifact

    def check_files(self) -> None:
        """Every file is the one that was compiled."""
        for name, digest in self.report["artifacts"].items():
            path = self.folder / name
            if not path.is_file():
                raise CortadoError(f"{path} is missing; compile the model again")
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise CortadoError(f"{path} is not the file that was compiled (its SHA-256 differs); compile again")

    @property
    def info(self) -> BundleInfo:
        def tensors(kind: str) -> tuple[IO, ...]:
            return tuple(IO(t["name"], tuple(t["shape"]), t["dtype"]) for t in self.report[kind])

        target = from_target_string(self.report["target"])
        return BundleInfo(self.report["prefix"], target, tensors("inputs"), tensors("outputs"))

    def example(self) -> list[ArrayType]:
        with np.load(self.folder / EXAMPLE, allow_pickle=False) as file:
            return [file[tensor["name"]] for tensor in self.report["inputs"]]

    def run(self, samples: Sequence[Sequence[ArrayType]], on: str | None = None) -> Checked:
        """Runs float (or already quantized int8) samples, beside the reference."""
        feeds, expected = self.reference(samples)
        return Checked(run_bundle(self.folder, self.info, feeds, on), expected)

    def reference(self, samples: Sequence[Sequence[ArrayType]]) -> tuple[list[list[ArrayType]], list[list[ArrayType]]]:
        """(what the bundle is fed, what it must give back), computed by the exact integer reference."""
        import torch

        from cortado.lowered import from_bytes, run_reference

        graph = from_bytes((self.folder / REFERENCE).read_bytes())
        feeds, expected = [], []
        for sample in samples:
            tensors = [torch.from_numpy(np.ascontiguousarray(self._float(i, x))) for i, x in enumerate(sample)]
            values = run_reference(graph, tensors)
            feeds.append([values[t["node"]].numpy() for t in self.report["inputs"]])
            expected.append([values[t["node"]].numpy() for t in self.report["outputs"]])
        return feeds, expected

    def _float(self, position: int, value: ArrayType) -> ArrayType:
        """int8 codes as the real numbers they stand for; the reference quantizes them back to the same codes."""
        tensor = self.report["inputs"][position]
        if value.dtype == np.int8 and tensor["scale"] is not None:
            return (value.astype(np.float32) - np.float32(tensor["zero_point"])) * np.float32(tensor["scale"])
        return value

    def check_input(self, position: int, value: ArrayType, where: str) -> None:
        """Shape and dtype of one sample's input."""
        tensor = self.report["inputs"][position]
        if list(value.shape) != tensor["shape"]:
            raise CortadoError(
                f"{where} has shape {list(value.shape)}, expected {tensor['shape']} for input '{tensor['name']}'"
            )
        if value.dtype not in (np.float32, np.int8):
            raise CortadoError(
                f"{where} has dtype {value.dtype}, expected float32 (real values) or int8 (quantized codes) "
                f"for input '{tensor['name']}'"
            )
        if value.dtype == np.float32 and not np.isfinite(value).all():
            raise CortadoError(f"{where} holds NaN or infinity; inputs must be finite")
