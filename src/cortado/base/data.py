"""Paths of the package's data: C kernels, the code of boards, style and script of report.html and of the web page."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
KERNELS = PACKAGE / "kernels"
DEVICE = PACKAGE / "device"
WEB = PACKAGE / "artifact" / "web"
WEB_PAGE = PACKAGE / "web" / "page"
