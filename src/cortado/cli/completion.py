"""cortado completion: what a shell offers after the tab key, made from the program's own parsers."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

FILES = ("DIR", "FILE", "DATA", "X.npy", "Y.npy", ".csv", ".pte", ".npz")  # metavars of what lies on a disk


@dataclass(frozen=True)
class CompletionValue:
    """What may stand behind an option, or as an argument of a command."""

    words: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True)
class Option:
    """One option; `value` is None for a switch."""

    names: tuple[str, ...]
    help: str
    value: CompletionValue | None


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    options: tuple[Option, ...]
    argument: CompletionValue  # of all of them together: shells don't count

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for option in self.options for name in option.names)


def completion_command(arguments: argparse.Namespace) -> None:
    print(SHELLS[arguments.shell](commands_of(arguments.parser)), end="")


def commands_of(parser: argparse.ArgumentParser) -> tuple[Command, ...]:
    known = _known()
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            found += [_command(name, helps[name], one, known) for name, one in action.choices.items()]
    return tuple(found)


def _known() -> dict[str, tuple[str, ...]]:
    """The words that stand for a metavar."""
    from cortado.base import chips, target
    from cortado.models import zoo
    from cortado.options import PackageKind
    from cortado.run.runner import EXECUTORCH, HOST

    boards = tuple(machine.value for machine in target.Machine)
    return {
        "MODEL": zoo.names(),
        "TARGET": tuple(row.target for row in target.table()),
        "CHIP": tuple(row.chip for row in chips.table()),
        "BOARD": boards,
        "PLACE": (HOST, EXECUTORCH, *boards),
        "SYSTEM": tuple(kind.value for kind in PackageKind),
    }


def _command(name: str, text: str, parser: argparse.ArgumentParser, known: Mapping[str, tuple[str, ...]]) -> Command:
    options = [
        Option(tuple(action.option_strings), action.help or "", None if action.nargs == 0 else _value(action, known))
        for action in parser._actions
        if action.option_strings
    ]
    values = [_value(action, known) for action in parser._actions if not action.option_strings]
    argument = CompletionValue(tuple(word for one in values for word in one.words), any(one.files for one in values))
    return Command(name, text, tuple(options), argument)


def _value(action: argparse.Action, known: Mapping[str, tuple[str, ...]]) -> CompletionValue:
    if action.choices is not None:
        return CompletionValue(tuple(map(str, action.choices)))
    name = str(action.metavar)
    return CompletionValue(known.get(name, ()), files=name == "MODEL" or name.endswith(FILES))


def _valued(commands: Sequence[Command]) -> Iterator[tuple[Command, Option, CompletionValue]]:
    for command in commands:
        for option in command.options:
            if option.value is not None:
                yield command, option, option.value


# ---- bash ----------------------------------------------------------------------------------------------------------


def bash(commands: Sequence[Command]) -> str:
    """To be sourced: eval "$(cortado completion bash)"."""
    behind = [
        f"        {_pattern(command, option)}) _cortado_offer {_words(value)} {_yes(value.files)}; return ;;"
        for command, option, value in _valued(commands)
    ]
    each = [
        f"        {command.name}) options={quote(' '.join(command.names))} words={_words(command.argument)} "
        f"files={_yes(command.argument.files)} ;;"
        for command in commands
    ]
    names = " ".join(command.name for command in commands)
    lines = [
        "# Completion of cortado for bash.",
        "_cortado_offer() {  # WORDS FILES",
        '    COMPREPLY=($(compgen -W "$1" -- "$current"))',
        '    [ -z "$2" ] || COMPREPLY+=($(compgen -f -- "$current"))',
        "}",
        "_cortado() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}",
        "    local options= words= files= IFS=$' \\t\\n'",
        "    COMPREPLY=()",
        f'    if [ "$COMP_CWORD" -eq 1 ]; then _cortado_offer {quote(names + " --help --version")}; return; fi',
        '    case "$command $before" in',
        *behind,
        "    esac",
        '    case "$command" in',
        *each,
        "    esac",
        '    case "$current" in',
        '        -*) _cortado_offer "$options" ;;',
        '        *) _cortado_offer "$words" "$files" ;;',
        "    esac",
        "}",
        "complete -o filenames -F _cortado cortado",
    ]
    return "\n".join(lines) + "\n"


def _pattern(command: Command, option: Option) -> str:
    return "|".join(quote(f"{command.name} {name}") for name in option.names)


def _words(value: CompletionValue) -> str:
    return quote(" ".join(value.words))


def _yes(value: bool) -> str:
    return "yes" if value else "''"


# ---- zsh -----------------------------------------------------------------------------------------------------------


def zsh(commands: Sequence[Command]) -> str:
    """To be sourced after compinit, or kept as _cortado in a folder of $fpath."""
    behind = [
        f"        ({_pattern(command, option)}) {_offer(value)}; return ;;"
        for command, option, value in _valued(commands)
    ]
    each = [
        f"        ({command.name}) if [[ $PREFIX == -* ]]; then compadd -- {' '.join(command.names)}; "
        f"else {_offer(command.argument)}; fi ;;"
        for command in commands
    ]
    lines = [
        "#compdef cortado",
        "_cortado() {",
        f"    if (( CURRENT == 2 )); then compadd -- {' '.join(command.name for command in commands)}; return; fi",
        '    case "${words[2]} ${words[CURRENT-1]}" in',
        *behind,
        "    esac",
        '    case "${words[2]}" in',
        *each,
        "    esac",
        "}",
        "compdef _cortado cortado",
    ]
    return "\n".join(lines) + "\n"


def _offer(value: CompletionValue) -> str:
    offers = [f"compadd -- {' '.join(map(quote, value.words))}"] if value.words else []
    return "; ".join([*offers, *(["_files"] if value.files else [])]) or ":"


# ---- fish ----------------------------------------------------------------------------------------------------------


def fish(commands: Sequence[Command]) -> str:
    """To be kept as ~/.config/fish/completions/cortado.fish."""
    lines = ["# Completion of cortado for fish.", "complete -c cortado -f"]
    for command in commands:
        lines.append(f"complete -c cortado -n __fish_use_subcommand -a {command.name} -d {_told(command.help)}")
        here = f'-n "__fish_seen_subcommand_from {command.name}"'
        if command.argument.words:
            lines.append(f"complete -c cortado {here} -a {quote(' '.join(command.argument.words))}")
        if command.argument.files:
            lines.append(f"complete -c cortado {here} -F")
        lines += [f"complete -c cortado {here} {_fish_option(option)}" for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.value is not None:
        parts.append("-r -F" if option.value.files else "-x")
        parts += [f"-a {quote(' '.join(option.value.words))}"] if option.value.words else []
    return " ".join([*parts, "-d", _told(option.help)])


def _told(text: str) -> str:
    """The first clause of a help text, in fish's quotes."""
    first = text.replace("%%", "%").split(";")[0].split(":")[0].split("(")[0].strip()
    return "'" + first.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[Sequence[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
