"""The table of boards in docs/hardware.md: a network on each that the emulator has, through its GDB server.

python benchmarks/hardware.py            prints the table
python benchmarks/hardware.py --write    puts it into docs/hardware.md
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from cortado.api import compile as compile_model  # noqa: E402
from cortado.artifact.opened import Artifact  # noqa: E402
from cortado.models.zoo import get  # noqa: E402
from cortado.options import Artifacts, Options  # noqa: E402
from helpers.gdb_servers import CHIPS, emulated  # noqa: E402

PAGE = ROOT / "docs" / "hardware.md"
HEAD = "| board | core | flash | RAM | bit-exact |\n|---|---|---|---|---|\n"


def rows(name: str = "ds_cnn") -> list[str]:
    """A line for each board."""
    network, found = get(name), []
    built: dict[str, Artifact] = {}
    with tempfile.TemporaryDirectory() as folder:
        for chip in CHIPS:
            if chip.target not in built:
                example = network.example_inputs()
                options = Options(artifacts=Artifacts.C)
                compiled = compile_model(network.build(), example, chip.target, [example], name=name, options=options)
                built[chip.target] = compiled.save(Path(folder) / chip.target)
            artifact = built[chip.target]
            with emulated(chip.machine) as port:
                place = f"gdb:localhost:{port}?flash={chip.flash}&ram={chip.ram}"
                exact = artifact.run([artifact.example()], place).bit_exact
            found.append(f"| {chip.machine} | {chip.target} | {chip.flash} | {chip.ram} | {'yes' if exact else 'NO'} |")
    return found


def main() -> None:
    lines = rows()
    print(HEAD + "\n".join(lines))
    if "--write" in sys.argv[1:]:
        text = PAGE.read_text()
        PAGE.write_text(text[: text.index(HEAD)] + HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
