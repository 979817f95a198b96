"""The command line."""

from cortado.cli import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Runs a command. Without arguments it uses the process's own and ends the process; with arguments it returns."""
    if argv is None:
        interrupts.end_at_once()
    from cortado.cli.entry import main as enter

    return enter(argv)


__all__ = ["main"]
