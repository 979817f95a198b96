"""The places where a command runs a model: --on, and the options for a chip behind a debug probe."""

import argparse
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError

if TYPE_CHECKING:
    from cortado.run.silicon.place import Silicon


def probe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flash", metavar="ORIGIN:SIZE", help="with --on gdb: the chip's flash, as in 0x08000000:1M")
    parser.add_argument("--ram", metavar="ORIGIN:SIZE", help="with --on gdb: its RAM, as in 0x20000000:128K")
    parser.add_argument(
        "--load",
        choices=("flash", "ram"),
        help="with --on gdb: where to load the firmware: flash (the default; overwrites it), or RAM only",
    )


def place_of(arguments: argparse.Namespace) -> str | None:
    """Returns --on including the chip's settings; raises for settings without --on gdb."""
    from cortado.run.silicon.place import is_probe, probe_place, probe_text

    settings = {name: getattr(arguments, name) for name in ("flash", "ram", "load")}
    given = [f"--{name}" for name, value in settings.items() if value is not None]
    on: str | None = arguments.on
    if on is None or not is_probe(on):
        if given:
            raise CortadoError(f"{given[0]} is for a chip behind a debug probe: add --on gdb, or leave it out")
        return on
    text = probe_text(on, {"chip": arguments.chip, **settings})
    if arguments.chip is not None or arguments.ram is not None:
        probe_place(text)  # reports mistakes before anything is built
    return text


def further_place(arguments: argparse.Namespace) -> str | None:
    """Returns --on if it names an additional place: a chip, or WebAssembly; raises for any other."""
    from cortado.run.runner import WASM
    from cortado.run.silicon.place import is_probe

    text = place_of(arguments)
    if text not in (None, WASM) and not is_probe(text):
        raise CortadoError(f"--on {text}: expected wasm or gdb:HOST:PORT; this machine and the boards are used anyway")
    return text


def silicon_lines(found: "Silicon") -> list[str]:
    """Describes the chip's counts, for people."""
    if found.first is None:
        return [f"no cycles: {found.core} has no running cycle counter"]
    later = "" if not found.later else f", {min(found.later):,} in later runs"
    time = ""
    if found.clock_hz is not None and found.warm is not None:
        time = f", {1000 * found.warm / found.clock_hz:.4g} ms"
    return [f"{found.first:,} cycles measured in the first run{later}{time} ({found.core})", found.words]


def silicon_json(found: "Silicon | None") -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "core": found.core,
        "cpuid": f"{found.cpuid:#010x}",
        "counter": found.counter.value,
        "clock_hz": found.clock_hz,
        "caches": list(found.caches),
        "memory": found.memory,
        "first_cycles": found.first,
        "later_cycles": list(found.later),
        "words": found.words,
    }
