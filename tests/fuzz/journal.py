"""What a campaign found out, a line of JSON for each network: it can stop at any time and go on later."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cortado.base.system import KERNEL_FILES
from cortado.ir.op import registry

ROOT = Path(__file__).parent.parent.parent
GENERAL = "networks"  # the family whose figures stand first
SUFFIXES = {".py", ".c", ".h", ".S", ".cpp", ".ld"}


def fingerprint() -> str:
    """Of everything that the outcome of a seed depends on: after a change a campaign starts anew."""
    state = hashlib.sha256()
    files = [*(ROOT / "src" / "cortado").rglob("*"), *Path(__file__).parent.glob("*")]
    for path in sorted(path for path in files if path.suffix in SUFFIXES):
        state.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:10]


class Journal:
    """The lines of one file, and room for more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = list(read_lines(path))

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        new = list(lines)
        self.lines += new
        write_lines(self.path, new)

    @property
    def seeds(self) -> set[tuple[str, int]]:
        """Of what is done: the family and the seed."""
        return {(line["family"], line["seed"]) for line in self.lines}


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Adds them to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, if there is one; one that was being written when the machine went down is left out."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


# ---- in numbers ----------------------------------------------------------------------------------------------------


def totals(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Counts of a journal, as they stand in docs/testing.md: of the general networks, and of each other family."""
    lines = list(lines)
    families = {family: [line for line in lines if line["family"] == family] for family in _families(lines)}
    general = families.pop(GENERAL, [])
    return _of_family(general) | {
        "layers": _spread(line["layers"] for line in general),
        "coverage": coverage(lines),
        "families": {name: _of_family(own) | {"drawn": _drawn(own)} for name, own in families.items()},
    }


def _families(lines: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys([GENERAL, *(line["family"] for line in lines)]))


def _drawn(lines: list[dict[str, Any]]) -> dict[str, int]:
    """In how many networks each thing was drawn."""
    return dict(sorted(Counter(name for line in lines for name in set(line["drawn"])).items()))


def _of_family(lines: list[dict[str, Any]]) -> dict[str, Any]:
    compiled = [line for line in lines if not line["refused"] and not line["kind"]]
    return {
        "networks": len(lines),
        "host": sum(line["host"] for line in lines),
        "boards": dict(sorted(Counter(line["board"] for line in lines if line["board"]).items())),
        "interrupts": sum(line["interrupts"] for line in lines),
        "pte": sum(line["pte"] for line in lines),
        "refused": dict(Counter(line["refused"] for line in lines if line["refused"]).most_common()),
        "bugs": [{key: line[key] for key in ("family", "seed", "kind", "what")} for line in lines if line["kind"]],
        "calls": _spread(line["calls"] for line in compiled),
        "seeds": [min((line["seed"] for line in lines), default=0), max((line["seed"] for line in lines), default=0)],
        "seconds": _seconds(lines),
    }


def _spread(values: Iterable[int]) -> list[int]:
    """Least, median, most."""
    found = sorted(values)
    return [found[0], found[len(found) // 2], found[-1]] if found else [0, 0, 0]


def _seconds(lines: list[dict[str, Any]]) -> dict[str, float]:
    phases = {phase for line in lines for phase in line["seconds"]}
    times = {phase: [line["seconds"][phase] for line in lines if phase in line["seconds"]] for phase in phases}
    return {phase: round(sum(values) / len(values), 2) for phase, values in sorted(times.items())}


def _is_kernel(path: Path) -> bool:
    """What is called for a layer; `cortado_*` is what all layers share, a loader of images or a self-test."""
    return path.suffix in (".c", ".S") and not path.name.startswith("cortado_")


def coverage(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of what Cortado claims: how much was met, and what never."""
    known = registry()
    targets = (*known.patterns, *known.rewrites, *known.decompositions)
    claimed = {
        "aten": {str(target) for target in targets if str(target).startswith("aten.")},
        "operators": set(known.operators),
        "kernels": {path.name for path in KERNEL_FILES.values() if _is_kernel(path)},
    }
    found = {}
    for kind, names in claimed.items():
        hits = Counter(name for line in lines for name in line[kind])
        missed = sorted(names - set(hits))
        beside = sorted(set(hits) - names)
        counts = {name: hits[name] for name in sorted(names & set(hits))}
        found[kind] = {"claimed": len(names), "met": len(counts), "never": missed, "beside": beside, "counts": counts}
    return found
