"""Where the package's data lie: the C kernels, the code of emulated boards, style and script of report.html."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
KERNELS = PACKAGE / "kernels"
DEVICE = PACKAGE / "device"
WEB = PACKAGE / "artifact" / "web"
