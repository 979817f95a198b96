"""Golden files: compared with what the code gives, written again by `pytest --update-golden`."""

from collections.abc import Callable
from pathlib import Path

Golden = Callable[[Path, str], None]
