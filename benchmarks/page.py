"""How long headless Chromium takes to show report.html, arena map and all, and how large the file is.

    cortado compile mobilenet_v2 --target cortex-m55 -o build/mobilenet_v2
    python benchmarks/page.py build/mobilenet_v2 [DIR ...] [--repeat 5] [--json]

Milliseconds from the start of loading until two frames after the picture is drawn; the browser is started before.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from selenium import webdriver

from _common import table

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
SHOWN = """
const done = arguments[0], look = () => document.querySelector(".buffer")
  ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))) : requestAnimationFrame(look);
look();
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.binary_location = "/usr/bin/chromium"
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    try:
        results = [measure(driver, folder / "report.html", arguments.repeat) for folder in arguments.folders]
    finally:
        driver.quit()
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        head = ["page", "bytes", "buffers", "ms, median", "ms, most"]
        print(table(head, [[r["page"], r["bytes"], r["buffers"], r["median_ms"], r["most_ms"]] for r in results]))


def measure(driver: webdriver.Chrome, page: Path, repeat: int) -> dict[str, Any]:
    times = []
    for _ in range(repeat):
        driver.get(page.absolute().as_uri())
        times.append(driver.execute_async_script(SHOWN))
    return {
        "page": str(page),
        "bytes": page.stat().st_size,
        "buffers": driver.execute_script("return document.querySelectorAll('.buffer').length"),
        "median_ms": statistics.median(times),
        "most_ms": max(times),
    }


if __name__ == "__main__":
    main()
