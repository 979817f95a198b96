"""cortado completion: what a shell offers after the tab key, made from the program's own parsers by shtab."""

import argparse
from collections.abc import Iterator
from shlex import join, quote
from typing import Any

SHELLS = ("bash", "zsh", "fish")
FILES = ("DIR", "FILE", "DATA", "X.npy", "Y.npy", ".csv", ".pte", ".npz")  # metavars of what lies on a disk


def completion_command(arguments: argparse.Namespace) -> None:
    print(script(arguments.parser, arguments.shell), end="")


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """To be sourced by bash and zsh, or kept as ~/.config/fish/completions/cortado.fish."""
    import shtab

    known = _known()
    for action in actions_of(parser):
        name = str(action.metavar)
        words, files = known.get(name, ()), name == "MODEL" or name.endswith(FILES)
        if action.choices is None and (words or files):
            action.complete = _words(name, words, files)  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell))


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Arguments and options, of all commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions_of(command)


def _known() -> dict[str, tuple[str, ...]]:
    """The words that stand for a metavar."""
    from cortado.base import chips, target
    from cortado.models import zoo
    from cortado.options import PackageKind
    from cortado.run.runner import EXECUTORCH, HERE

    boards = tuple(machine.value for machine in target.Machine)
    return {
        "MODEL": zoo.names(),
        "TARGET": tuple(row.target for row in target.table()),
        "CHIP": tuple(row.chip for row in chips.table()),
        "BOARD": boards,
        "PLACE": (*HERE, EXECUTORCH, *boards),
        "SYSTEM": tuple(kind.value for kind in PackageKind),
    }


def _words(metavar: str, words: tuple[str, ...], files: bool) -> dict[str, Any]:
    """Returns what offers these words, and files where they may stand too, as shtab wants it for each shell."""
    name = f"_cortado_offer_{''.join(letter if letter.isalnum() else '_' for letter in metavar).lower()}"
    listed = join(words)
    in_bash = [f"compgen -W {quote(listed)} -- $1"] if words else []
    in_zsh = [f"compadd -- {listed}"] if words else []
    in_fish = [f"printf '%s\\n' {listed}"] if words else []
    if files:
        in_bash, in_zsh = [*in_bash, "compgen -f -- $1"], [*in_zsh, "_files"]
        in_fish = [*in_fish, "__fish_complete_path (commandline -ct)"]
    return {
        "bash": name,
        "zsh": name,
        "fish": f"({name})",
        "preamble": {
            "bash": f"{name}() {{ {'; '.join(in_bash)}; }}\n",
            "zsh": f"{name}() {{ {'; '.join(in_zsh)}; }}\n",
            "fish": f"function {name}\n{chr(10).join(in_fish)}\nend\n",
        },
    }
