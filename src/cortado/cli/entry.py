"""The command line: `cortado compile`, `run`, `validate` and the rest; errors and exit codes."""

import argparse
import atexit
import contextlib
import errno
import json
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NoReturn, TextIO

from cortado import __version__, quiet_libraries
from cortado.base.errors import CortadoError, CortadoWarning, TellsWhatIsMissing, Unfinished, WrongResult
from cortado.cli import interrupts
from cortado.cli.arguments import (
    compare_arguments,
    compile_arguments,
    evaluate_arguments,
    profile_arguments,
    run_arguments,
    validate_arguments,
)
from cortado.cli.commands import (
    SHELLS,
    chips_command,
    completion_command,
    doctor_command,
    inspect_command,
    kernels_arguments,
    ops_command,
    pack_arguments,
    plan_command,
    show_arguments,
    targets_command,
    zoo_command,
)
from cortado.cli.parsing import add
from cortado.cli.sweep import estimate_arguments, sweep_arguments

MISTAKE = "this is a bug in Cortado, not a mistake of yours; please report it with the lines above"


class Exit(IntEnum):
    """Exit codes; they are a contract."""

    FINE = 0
    WRONG_RESULT = 1
    USER = 2
    INTERNAL = 70  # a bug in Cortado: neither the user's fault nor a result
    INTERRUPTED = interrupts.INTERRUPTED  # by Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command with the process's own arguments and ends the process, or with given ones and returns."""
    if argv is None:
        warnings.showwarning = _say
    code = _main(argv)
    return code if argv is not None else _leave(code)


_show = warnings.showwarning


def _say(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints Cortado's own warnings like its other messages, without a source location."""
    if issubclass(category, CortadoWarning):
        print(f"warning: {message}", file=sys.stderr)
    else:
        _show(message, category, filename, lineno, file, line)


def _main(argv: Sequence[str] | None) -> int:
    quiet_libraries()
    parser = make_parser()
    given = sys.argv[1:] if argv is None else argv
    try:
        arguments = parser.parse_args(given)
        if not hasattr(arguments, "command"):
            parser.print_help(sys.stderr)
            return Exit.USER
        with interrupts.Raised():
            arguments.command(arguments)
            sys.stdout.flush()
        return Exit.FINE
    except BrokenPipeError:
        # The reader closed the pipe (`cortado targets | head -1`): the interpreter's last flush must not complain.
        _no_more_output()
        return Exit.FINE
    except (KeyboardInterrupt, Exception) as error:
        return _failed(error, as_json="--json" in given)


def _failed(error: BaseException, as_json: bool) -> int:
    """Reports an error on standard error and, for programs, as JSON; returns the exit code."""
    message, code = _told(error)
    print(f"cortado: {message}", file=sys.stderr)
    has_result = isinstance(error, WrongResult | TellsWhatIsMissing | Unfinished)  # and has printed it
    if as_json and not has_result:
        record = {"error": {"exit_code": int(code), "kind": type(error).__name__, "message": message}}
        with contextlib.suppress(OSError):
            print(json.dumps(record, indent=2), flush=True)
    return code


def _told(error: BaseException) -> tuple[str, Exit]:
    if interrupts.came() or _interrupted(error):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, CortadoError):
        return str(error), Exit.WRONG_RESULT if isinstance(error, WrongResult) else Exit.USER
    missing = _missing_package(error) if isinstance(error, ModuleNotFoundError) else None
    if missing is not None:
        return missing, Exit.USER
    if isinstance(error, OSError) and error.errno in MACHINE:
        return _of_the_machine(error), Exit.USER
    if isinstance(error, MemoryError):
        return "there is not enough memory for this on this machine", Exit.USER
    traceback.print_exception(error)
    return MISTAKE, Exit.INTERNAL


MACHINE = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EROFS: "name another folder, or set TMPDIR and CORTADO_CACHE",
    errno.EACCES: "name another folder, or set TMPDIR and CORTADO_CACHE",
    errno.EPERM: "name another folder, or set TMPDIR and CORTADO_CACHE",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "close other programs",
    errno.EIO: "look at the disk",
}
"""Errors of the machine and not of Cortado, and what to do about them."""


def _of_the_machine(error: OSError) -> str:
    _no_more_output()  # a failed write would be retried
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror}; {MACHINE[error.errno or 0]} and run this again"


def _no_more_output() -> None:
    with contextlib.suppress(OSError, ValueError):  # in tests, standard output is no file
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave(code: int) -> NoReturn:
    """Ends the process at once: tearing down torch's modules would take half a second."""
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # nothing reads the output any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _interrupted(error: BaseException | None) -> bool:
    """Returns whether an error occurred while Ctrl-C was being handled, as during a folder's cleanup."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _missing_package(error: ModuleNotFoundError) -> str | None:
    """Explains a missing package that only some commands need; None for any other missing module, which is a bug."""
    from cortado.base.versions import PACKAGES

    package = next((package for package in PACKAGES if package.name == (error.name or "").split(".")[0]), None)
    if package is None:
        return None
    return f"{package.name} is not installed (needed for {package.needed_for}): {package.install}"


class Parser(argparse.ArgumentParser):
    """A parser that reports mistakes like all other errors."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise CortadoError(message)


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="cortado",
        description="Compiles PyTorch models ahead of time for Arm Cortex-M microcontrollers.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cortado {__version__}", help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    compile_arguments(commands)
    run_arguments(commands)
    profile_arguments(commands)
    validate_arguments(commands)
    evaluate_arguments(commands)
    compare_arguments(commands)
    show_arguments(commands)
    estimate_arguments(commands, add)
    sweep_arguments(commands, add)
    kernels_arguments(commands, add)
    pack_arguments(commands, add)
    add(commands, "targets", "list the cores that Cortado compiles for", targets_command)
    add(commands, "chips", "list chips and boards: core, clock, memories", chips_command)
    add(commands, "zoo", "list the networks that come with Cortado", zoo_command)
    ops = add(commands, "ops", "list the operators of the lowered graph and where each can run", ops_command)
    ops.add_argument("--markdown", action="store_true", help="print docs/operators.md")
    add(commands, "doctor", "show what is installed, what is missing, and how to install it", doctor_command)
    inspect = add(commands, "inspect", "show what a .pte file or an image holds", inspect_command)
    inspect.add_argument("file", type=Path, metavar="FILE", help="an ExecuTorch program (.pte), or an image (.cortado)")
    inspect.add_argument("--target", "-t", metavar="TARGET", help="fail unless the file is for this target")
    plan = add(commands, "plan", "place the buffers of a memory-planning problem", plan_command, json=False)
    plan.add_argument(
        "file",
        type=Path,
        metavar="PROBLEM.csv",
        help="buffers with sizes and lifetimes: CSV with the columns id,lower,upper,size or "
        "id,lower_stage,lower_pos,upper_stage,upper_pos,size, and optionally align, overlay_of and lead",
    )
    plan.add_argument(
        "--output", "-o", type=Path, metavar="PLAN.csv", help="write the plan here (default: standard output)"
    )
    completion = add(
        commands,
        "completion",
        "print this command line's completion script for a shell",
        completion_command,
        json=False,
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    completion.set_defaults(parser=parser)
    return parser
