"""The command line: `cortado compile`, `run`, `validate` and the rest; errors and exit codes."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

from cortado import __version__, quiet_libraries
from cortado.base.errors import CortadoError, WrongResult
from cortado.cli.arguments import (
    add,
    compile_arguments,
    evaluate_arguments,
    profile_arguments,
    run_arguments,
    validate_arguments,
)
from cortado.cli.commands import (
    chips_command,
    doctor_command,
    inspect_command,
    ops_command,
    plan_command,
    targets_command,
    zoo_command,
)
from cortado.cli.sweep import estimate_arguments, sweep_arguments

MISTAKE = "this is a mistake in Cortado, not yours; please report it with the lines above"


class Exit(IntEnum):
    """What the shell sees; a contract."""

    FINE = 0
    WRONG_RESULT = 1
    USER = 2
    INTERNAL = 70  # a mistake in Cortado itself: neither the user's nor a result
    INTERRUPTED = 130  # by Ctrl-C, as shells say it


def main(argv: Sequence[str] | None = None) -> int:
    quiet_libraries()
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "command"):
        parser.print_help(sys.stderr)
        return Exit.USER
    try:
        arguments.command(arguments)
        sys.stdout.flush()
        return Exit.FINE
    except BrokenPipeError:
        # The reader went away (`cortado targets | head -1`): the interpreter's last flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FINE
    except KeyboardInterrupt:
        return _fail("interrupted", Exit.INTERRUPTED)
    except WrongResult as error:
        return _fail(str(error), Exit.WRONG_RESULT)
    except CortadoError as error:
        return _fail(str(error), Exit.USER)
    except ModuleNotFoundError as error:
        return _missing_module(error)
    except Exception as error:
        if _interrupted(error):
            return _fail("interrupted", Exit.INTERRUPTED)
        traceback.print_exc()
        return _fail(MISTAKE, Exit.INTERNAL)


def _interrupted(error: BaseException | None) -> bool:
    """Whether something failed while Ctrl-C was making its way out: a folder that was being removed, say."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _missing_module(error: ModuleNotFoundError) -> int:
    """A package that this command needs and others don't; anything else is a mistake of ours."""
    from cortado.run.doctor import PACKAGES

    package = next((package for package in PACKAGES if package.name == (error.name or "").split(".")[0]), None)
    if package is None:
        traceback.print_exc()
        return _fail(MISTAKE, Exit.INTERNAL)
    install = f"pip install {package.name}=={package.pinned}"
    return _fail(f"{package.name} is not installed (needed for {package.needed_for}): {install}", Exit.USER)


def _fail(message: str, code: Exit) -> int:
    print(f"cortado: {message}", file=sys.stderr)
    return code


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
    estimate_arguments(commands, add)
    sweep_arguments(commands, add)
    add(commands, "targets", "the cores Cortado compiles for", targets_command)
    add(commands, "chips", "chips and boards by name: core, clock, memories", chips_command)
    add(commands, "zoo", "the networks that come with Cortado", zoo_command)
    ops = add(commands, "ops", "the operators of the lowered graph and where each can run", ops_command)
    ops.add_argument("--markdown", action="store_true", help="print docs/operators.md")
    add(commands, "doctor", "what is installed, what is missing, and how to install it", doctor_command)
    inspect = add(commands, "inspect", "what a .pte file holds", inspect_command)
    inspect.add_argument("file", type=Path, metavar="FILE.pte", help="an ExecuTorch program")
    inspect.add_argument("--target", "-t", metavar="TARGET", help="fail unless the file is for this target")
    plan = add(commands, "plan", "place the buffers of a memory-planning problem", plan_command, json=False)
    plan.add_argument(
        "file",
        type=Path,
        metavar="PROBLEM.csv",
        help="buffers with sizes and lifetimes: the columns id,lower,upper,size or "
        "id,lower_stage,lower_pos,upper_stage,upper_pos,size, and where needed align, overlay_of and lead",
    )
    plan.add_argument(
        "--output", "-o", type=Path, metavar="PLAN.csv", help="write the plan here (default: standard output)"
    )
    return parser
