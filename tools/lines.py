"""Lines of Python by package, and of the C kernels, at a commit and now: python tools/lines.py 3356fda~1."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNELS = "C kernels"
# Where modules are now that were elsewhere then.
_MOVED = {
    "frontend/zoo": "models",
    "frontend/models.py": "models",
    **dict.fromkeys(("accuracy.py", "dataset.py", "floats.py", "metrics.py", "validate.py"), "scoring"),
    **dict.fromkeys(("estimation.py", "sketch.py"), "exploring"),
}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def package_of(path: str) -> str | None:
    """Of a file of src/cortado; None if it is neither Python nor a kernel, as the adapter for ExecuTorch."""
    first, _, rest = path.partition("/")
    if first == "kernels":
        return KERNELS if path.endswith((".c", ".h", ".S")) and not rest.startswith("executorch/") else None
    if not path.endswith(".py"):
        return None
    known = [package for place, package in _MOVED.items() if path == place or path.startswith(f"{place}/")]
    return known[0] if known else first.removesuffix(".py")


def lines(commit: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in _git("ls-tree", "-r", "--name-only", commit, "src/cortado").splitlines():
        package = package_of(path.removeprefix("src/cortado/"))
        if package is not None:
            found[package] += _git("show", f"{commit}:{path}").count("\n")
    return found


def main() -> None:
    then, now = lines(sys.argv[1]), lines("HEAD")
    for name in sorted({*then, *now}):
        print(f"{name:12} {then[name]:8,} {now[name]:8,} {now[name] - then[name]:+8,}")
    python = [sum(count for name, count in one.items() if name != KERNELS) for one in (then, now)]
    print(f"{'Python':12} {python[0]:8,} {python[1]:8,} {python[1] - python[0]:+8,}")


if __name__ == "__main__":
    main()
