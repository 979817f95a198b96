"""Where the package's data lie: the C kernels, and the code of emulated boards."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
KERNELS = PACKAGE / "kernels"
DEVICE = PACKAGE / "device"
