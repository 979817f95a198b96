"""The command line."""

from cortado.cli import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Entry point of the shell, without arguments: they are the process's, which ends here. With them it returns."""
    if argv is None:
        interrupts.end_at_once()
    from cortado.cli.entry import main as enter

    return enter(argv)


__all__ = ["main"]
