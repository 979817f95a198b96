"""Golden files and generated documents: compared with what the code gives, written again by `make golden`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Golden:
    """Compares a text with a file; with `pytest --update-golden` writes the file instead."""

    update: bool

    def __call__(self, path: Path, text: str, alike: Callable[[str], str] = str) -> None:
        """`alike` takes out of both texts what may differ."""
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        else:
            found = path.read_text() if path.is_file() else ""
            assert alike(text) == alike(found), f"{path} is out of date; if the change is meant, run: make golden"


def generated(page: str, name: str, text: str) -> str:
    """The page with what stands between its two marks written again."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    assert page.count(begin) == page.count(end) == 1
    return page.split(begin)[0] + begin + "\n" + text + "\n" + end + page.split(end)[1]
