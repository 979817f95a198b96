"""cortado estimate, cortado sweep."""

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError, CortadoWarning
from cortado.base.names import operator_base
from cortado.cli.parsing import has_methods, method_argument, shape_argument, shapes_of
from cortado.cli.tables import ProgressBar, in_columns
from cortado.options import Border, LinearWeights, Optimize

if TYPE_CHECKING:
    from cortado.base.chips import Chip
    from cortado.base.target import CortexMTargetConfig
    from cortado.exploring import Estimate, LayerEstimate
    from cortado.options import Options
    from cortado.sweep.rows import SweepRow

SHOWN = 20  # rows of the Pareto front that are printed


# ---- estimate ------------------------------------------------------------------------------------------------------


def estimate_command(arguments: argparse.Namespace) -> None:
    from cortado.base.chips import find_chip
    from cortado.exploring import chosen_target, estimate

    chip = None if arguments.chip is None else find_chip(arguments.chip)
    target = chosen_target(chip, arguments.target)  # before torch is loaded
    # A user's own file may print: standard output is reserved for the result.
    with contextlib.redirect_stdout(sys.stderr):
        from cortado.models.sources import load_model
        from cortado.options import Options

        options = Options(
            optimize=Optimize(arguments.optimize),
            io=Border(arguments.io),
            linear=LinearWeights(arguments.linear),
            watch=arguments.watch,
        )
        methods = _methods_estimates(arguments, target, chip, options)
        if methods is None:
            source = load_model(arguments.model, shapes_of(arguments))
            methods = {source.name: estimate(source.model, source.example_inputs, chip, target, options)}
    if arguments.json:
        made = [{"model": name, **asdict(one), "flash_bytes": one.flash_bytes} for name, one in methods.items()]
        print(json.dumps(made[0] if len(made) == 1 else made, indent=2))
    else:
        print("\n\n".join("\n".join(_estimate_text(name, one)) for name, one in methods.items()))


def _methods_estimates(
    arguments: argparse.Namespace, target: "CortexMTargetConfig", chip: "Chip | None", options: "Options"
) -> "dict[str, Estimate] | None":
    """Estimates the methods of a file with ModelMethods, or the one named; returns None for any other model."""
    from cortado.models.sources import load_methods

    source = load_methods(arguments.model) if has_methods(arguments.model) else None
    if source is None:
        if arguments.method is not None:
            raise CortadoError(f"--method is for a file with ModelMethods (docs/methods.md), found {arguments.model}")
        return None
    from cortado.methods import compile_methods

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CortadoWarning)  # they are about its results
        made = compile_methods(source.model, source.methods, target, source.calls, source.name, options)
    if arguments.method is not None and arguments.method not in made.planned:
        raise CortadoError(f"--method {arguments.method}: {source.name} has {', '.join(made.planned)}")
    return {
        f"{source.name}.{name}": one for name, one in made.estimates(chip).items() if arguments.method in (None, name)
    }


def _estimate_text(name: str, found: "Estimate") -> list[str]:
    lines = [f"{name} for {found.target}, estimated"]
    lines.append(f"RAM     {found.ram_bytes:,} bytes (arena)")
    code = "code not known without a compiler" if found.code_bytes is None else f"{found.code_bytes:,} code"
    flash = found.weights_bytes if found.flash_bytes is None else found.flash_bytes
    lines.append(f"flash   {flash:,} bytes ({found.weights_bytes:,} weights, {code})")
    lines.append(f"cycles  {found.cycles:,} at zero wait states (an estimate of a model), {found.macs:,} MACs")
    left = sum(not layer.estimated for layer in found.layers)
    if left:
        lines.append(f"        without {left} of {len(found.layers)} layers, which are not estimated")
    if found.milliseconds is not None:
        fits = "" if found.fits else "; does NOT fit"
        lines.append(f"time    {found.milliseconds:.3g} ms on {found.chip}{fits}")
    heaviest = sorted(found.layers, key=lambda layer: -layer.cycles)[:5]
    rows = [("HEAVIEST LAYERS", "OPERATOR", "CYCLES")]
    rows += [(layer.module or layer.name, operator_base(layer.operator), _layer_text(layer)) for layer in heaviest]
    return [*lines, "", *in_columns(rows)]


def _layer_text(layer: "LayerEstimate") -> str:
    return f"{layer.cycles:,}" if layer.estimated else "not estimated"


# ---- sweep ---------------------------------------------------------------------------------------------------------


def sweep_command(arguments: argparse.Namespace) -> None:
    from cortado.sweep.run import sweep
    from cortado.sweep.spec import read_spec

    spec = read_spec(arguments.spec)
    folder = arguments.output or Path("build") / arguments.spec.stem
    progress = ProgressBar()
    try:
        with _executor(arguments) as executor:
            rows = sweep(spec, folder, executor, progress)
    finally:
        progress.stop()
    if arguments.json:
        print(json.dumps([row.to_json() for row in rows], indent=2))
    else:
        print("\n".join(_sweep_text(rows, folder)))


@contextlib.contextmanager
def _executor(arguments: argparse.Namespace) -> Iterator[Executor | None]:
    """Yields the executor of the tasks; None for the default of `sweep`."""
    if arguments.dask is not None and arguments.workers is not None:
        raise CortadoError("--dask and --workers: a cluster has its own workers; give only one of them")
    if arguments.dask is None:
        yield None if arguments.workers is None else _threads(arguments.workers)
        return
    with _client(arguments.dask) as client:
        yield client.get_executor(pure=False)


def _threads(count: int) -> Executor:
    """Returns a pool of threads, each of which waits for a process of its own."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count)


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise CortadoError("--dask needs Dask: pip install 'cortado[sweep]'") from None
    try:
        return Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise CortadoError(f"no Dask scheduler answers at {address}: {error}") from error


def _sweep_text(rows: "list[SweepRow]", folder: Path) -> list[str]:
    best = sorted((row for row in rows if row.best), key=lambda row: (row.place, row.cycles or 0))
    scored = any(row.score is not None for row in rows)
    header = ("MODEL", "CHIP", "OPTIONS", *(["SCORE"] if scored else []), "RAM", "FLASH", "CYCLES", "MS")
    lines = [header, *(_cells(row, scored) for row in best[:SHOWN])]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.status.value] = counts.get(row.status.value, 0) + 1
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    over = sum(bool(row.over) for row in rows)
    told += f"; {over} over a constraint" if over else ""
    known = sum(row.cached for row in rows)
    more = [f"and {len(best) - SHOWN} more"] if len(best) > SHOWN else []
    return [
        f"{len(rows)} rows: {told}; {known} from the cache",
        "",
        f"rows that no other row of the same chip beats in {'score, ' if scored else ''}RAM, flash and cycles:",
        *in_columns(lines),
        *more,
        "",
        f"all rows: {folder / 'rows.csv'}, rows.json, index.html",
    ]


def _cells(row: "SweepRow", scored: bool) -> tuple[str, ...]:
    time = "-" if row.milliseconds is None else f"{row.milliseconds:.3g}"
    score = [f"{row.score:.4g}"] if scored else []
    figures = (f"{row.ram_bytes:,}", f"{row.needed_flash:,}", f"{row.cycles:,}", time)
    return (row.model, row.place, row.options, *score, *figures)


# ---- arguments -----------------------------------------------------------------------------------------------------


def estimate_arguments(commands: Any, add: Any) -> None:
    parser = add(
        commands, "estimate", "estimate RAM, flash and cycles of a model without compiling it", estimate_command
    )
    parser.add_argument("model", metavar="MODEL", help="as for `compile`; its weights can be random")
    shape_argument(parser)
    method_argument(parser)
    parser.add_argument("--chip", metavar="CHIP", help="a chip or board listed by `cortado chips`")
    parser.add_argument("-t", "--target", metavar="TARGET", help="a core (default: the chip's)")
    for option, kind, default in (
        ("--optimize", Optimize, Optimize.BALANCED),
        ("--io", Border, Border.INT8),
        ("--linear", LinearWeights, LinearWeights.PER_CHANNEL),
    ):
        choices = [member.value for member in kind]
        parser.add_argument(option, choices=choices, default=default.value, help="as for `compile`")
    parser.add_argument("--watch", metavar="LAYER", help="as for `compile`, with one mean per score")


def sweep_arguments(commands: Any, add: Any) -> None:
    parser = add(
        commands,
        "sweep",
        "compile or estimate models x chips x options: a row of figures, or a reason, for each",
        sweep_command,
    )
    parser.add_argument(
        "spec", type=Path, metavar="SPEC.toml", help="the models, chips and options to try (docs/sweep.md)"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="the folder for rows.csv, rows.json, index.html and the cache (default: build/SPEC)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes on this machine (default: one per core)")
    parser.add_argument("--dask", metavar="ADDRESS", help="the scheduler of a Dask cluster, as in tcp://10.0.0.5:8786")
