"""Names that mean something to C, HTML or a shell, and folders that somebody has damaged."""

import contextlib
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import nn

from cortado.api import prepare
from cortado.artifact.manifest import REPORT
from cortado.artifact.page import build_page
from cortado.base.errors import CortadoError
from cortado.cli.entry import main
from helpers.pages import outline

PIECES = (
    *(
        "*/",
        "/*",
        "//",
        '"',
        "'",
        "\\",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "%s",
        "%n",
        "${x}",
        "$(touch pwned)",
        "`touch pwned`",
    ),
    *(";", "#include", "\n#error", "??/", "</script>", "<b>", "&amp;", "{{}}", "größe", "名前", "\u202e", "\U0001f600"),
    *(" ", "a", "x1", "int", "main", "__", "-", "../..", "}"),
)
CODES = (0, 1, 2)  # what the command line may end with, whatever it is given


class Named(nn.Module):
    """Two layers whose names somebody chose with care."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({first: nn.Conv2d(2, 3, 3), second: nn.Conv2d(3, 2, 1)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers.values():
            x = torch.relu(layer(x))
        return x


def draw_name(rng: Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4))).replace(".", "_")


def check_names(seed: int, folder: Path) -> str:
    """'' if the network compiles and runs bit-exactly, the refusal if there is one; AssertionError otherwise."""
    rng = Random(seed)
    names = [draw_name(rng), draw_name(rng) + "_"]
    model = draw_name(rng) if rng.random() < 0.3 else "named"
    data = [(torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(seed)),)]
    torch.manual_seed(seed)  # the same weights under both names: the pages are to differ in nothing else
    try:
        compiled = prepare(Named(*names), data[0], data, name=model).compile("cortex-m4")
        artifact = compiled.save(folder)
        checked = artifact.run([[data[0][0].numpy() * 0.5]], "host")
    except CortadoError as error:
        return str(error)
    assert checked.bit_exact, names
    torch.manual_seed(seed)
    harmless = prepare(Named("one", "two_"), data[0], data, name="named").compile("cortex-m4")
    page = (folder / "report.html").read_text()
    assert outline(page) == outline(build_page(harmless.report)), names  # no name leaves the text that it stands in
    assert not (Path.cwd() / "pwned").exists(), names
    return ""


# ---- damaged folders -----------------------------------------------------------------------------------------------

Damage = Callable[[Random, Path], None]
JSON_VALUES: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1e308, "", "x", "../x", "\0", [], [[]], {}, {"a": 1}, [None])


def flip(rng: Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(rng: Random, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def delete(rng: Random, path: Path) -> None:
    path.unlink()


def replace_folder(rng: Random, path: Path) -> None:
    path.unlink()
    path.mkdir()


def change_json(rng: Random, path: Path) -> None:
    """A value anywhere inside becomes something else, or goes."""
    record = json.loads(path.read_text())
    place: Any = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = rng.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.8:
            place = place[key]
            continue
        if isinstance(place, dict) and rng.random() < 0.2:
            del place[key]
        else:
            place[key] = rng.choice(JSON_VALUES)
        break
    path.write_text(json.dumps(record))


def change_arrays(rng: Random, path: Path) -> None:
    """An array of an .npz becomes another one; in the reference's text, a value of its JSON."""
    with np.load(path) as file:
        arrays = dict(file)
    name = rng.choice(list(arrays))
    if name == "graph":
        text = path.with_suffix(".json")
        text.write_bytes(arrays[name].tobytes())
        change_json(rng, text)
        arrays[name] = np.frombuffer(text.read_bytes(), np.uint8)
        text.unlink()
    else:
        others = (
            arrays[name][..., :-1],
            arrays[name].astype(np.float64),
            arrays[name].reshape(-1),
            np.zeros(0, np.int8),
        )
        arrays[name] = rng.choice(others)
    np.savez(path, **arrays)


PLAIN: tuple[Damage, ...] = (flip, truncate, delete, replace_folder)
INSIDE: dict[str, Damage] = {".json": change_json, ".npz": change_arrays}


def damage(rng: Random, folder: Path) -> str:
    """Changes one file; what is changed inside gets its checksum, so that it is read."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    inside = INSIDE.get(path.suffix)
    if inside is None or rng.random() < 0.25:
        chosen = rng.choice(PLAIN)
        chosen(rng, path)
        return f"{chosen.__name__} {path.relative_to(folder)}"
    inside(rng, path)
    forge_checksums(folder)
    return f"{inside.__name__} {path.relative_to(folder)}"


def forge_checksums(folder: Path) -> None:
    try:
        report = json.loads((folder / REPORT).read_text())
        for name in report["artifacts"]:
            report["artifacts"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / REPORT).write_text(json.dumps(report))
    except (OSError, ValueError, KeyError, TypeError):
        return  # the damage went too deep


@cache
def trust() -> list[str]:
    """The folder is not one that this installation wrote: running it may take a word of trust."""
    return ["--trust"] if "--trust" in run_command(["run", "--help"])[1] else []


def commands(folder: Path) -> list[list[str]]:
    return [
        ["run", str(folder), "--on", "host", *trust()],
        ["run", str(folder), "--on", "executorch", *trust()],
        *(["inspect", str(path)] for path in folder.glob("*.pte")),
    ]


def check_folder(seed: int, whole: Path, place: Path) -> str:
    """Damages a copy of a compiled model; every command must end in order. What was damaged."""
    rng = Random(seed)
    shutil.copytree(whole, place)
    what = damage(rng, place)
    for command in commands(place):
        code, said = run_command(command)
        assert code in CODES, f"seed {seed}, {what}: `cortado {' '.join(command)}` ended with {code}:\n{said}"
        assert "Traceback" not in said, f"seed {seed}, {what}:\n{said}"
    return what


def run_command(command: Sequence[str]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(list(command))
        except SystemExit as stop:  # argparse's
            code = stop.code if isinstance(stop.code, int) else 2
    return int(code), said.getvalue()
