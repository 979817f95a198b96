"""The command line inside a test, what it answered, and refusals as they must be."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortado.artifact.manifest import REPORT
from helpers.paths import MODELS

TINY = MODELS / "tiny.py"
TWO = MODELS / "two.py"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


def in_new_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=1800)


WITHOUT_TORCH = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchao", "executorch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotInstalled())
from cortado.cli.entry import main
sys.exit(main(sys.argv[1:]))
"""


def without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    return in_new_process("-c", WITHOUT_TORCH, *map(str, arguments))


def compile_tiny(run: Run, *arguments: object) -> Done:
    return run("compile", TINY, "--calibration", f"{TINY}:calibration", *arguments)


def forge_checksums(folder: Path) -> None:
    import hashlib

    report = json.loads((folder / REPORT).read_text())
    for name in report["artifacts"]:
        report["artifacts"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / REPORT).write_text(json.dumps(report))


def refused(done: Done, *parts: str) -> str:
    """Exit code 2, nothing on standard output, and a message (without the progress lines) that says all of `parts`."""
    lines = [line for line in done.err.splitlines() if not re.match(r"\[ *[\d.]+ s\] ", line)]
    message = "\n".join(lines)
    assert done.code == 2, done.err
    assert done.out == ""
    assert message.startswith("cortado: ")
    assert "Traceback" not in message
    for part in parts:
        assert part in message
    return message


def one_sentence(done: Done, *parts: str) -> None:
    assert len(refused(done, *parts).splitlines()) == 1
