"""docs/cli.md, made from the parsers themselves: one place says what an option does."""

import argparse
from collections.abc import Iterator

from cortado.cli.entry import Exit, make_parser

HEAD = """# The command line

This page is made from the program's own parsers; `make golden` writes it again.

    cortado COMMAND [OPTIONS]

Results go to standard output, progress and errors to standard error. `cortado COMMAND --help` prints what is below.
With `--json` an error is also an object on standard output: `{"error": {"exit_code": 2, "kind": ..., "message": ...}}`.
`run`, `show`, `profile`, `pack`, `kernels`, `compare`, `inspect`, `plan`, `targets`, `chips` and `doctor` need no
torch: what tests firmware needs only the folder ([firmware.md](firmware.md#on-a-machine-without-torch)). For the tab
key, put `eval "$(cortado completion bash)"` into `~/.bashrc`; zsh and fish have theirs.

| exit code | means |
|---|---|
"""
MEANINGS = {
    Exit.FINE: "fine",
    Exit.WRONG_RESULT: "something ran, but its result is wrong: other bits than the reference, or a missed threshold",
    Exit.USER: "the user's mistake, or a missing tool: the message says what to do",
    Exit.INTERNAL: "a bug in Cortado itself",
    Exit.INTERRUPTED: "interrupted by Ctrl-C; nothing is left half-written",
}
TAIL = """
`CORTADO_CACHE` names the folder where built firmware is kept, and notes of the models that were compiled here (default:
`~/.cache/cortado`); it may be deleted any time. Models compiled before then need `--trust` to run on this machine.
"""


def page() -> str:
    parser = make_parser()
    codes = "\n".join(f"| {code.value} | {MEANINGS[code]} |" for code in Exit)
    return HEAD + codes + "\n" + TAIL + "".join(_command(*item) for item in commands(parser))


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    known = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    actions = sorted(known, key=lambda action: action.dest == "json")  # every command has it: last
    positional = [f"[{a.metavar}]" if a.nargs == "?" else str(a.metavar) for a in actions if not a.option_strings]
    usage = " ".join(["cortado", name, *positional, "[OPTIONS]"])
    rows = "\n".join(f"| {_spelling(action)} | {_help(action)} |" for action in actions)
    return f"\n## {name}\n\n{parser.description}\n\n    {usage}\n\n| argument | meaning |\n|---|---|\n{rows}\n"


def _spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar}`"
    value = action.metavar or ("\\|".join(map(str, action.choices)) if action.choices else None)
    spellings = ", ".join(f"`{option}`" for option in action.option_strings)
    return spellings if action.nargs == 0 or value is None else f"{spellings} `{value}`"


def _help(action: argparse.Action) -> str:
    assert action.help, f"{action.dest} has no help"
    return action.help.replace("%%", "%").replace("|", "\\|")
