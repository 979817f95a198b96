"""PlatformIO: a library with library.json, its files in one folder."""

import json

from cortado.emit.packages.arduino import sketch
from cortado.emit.packages.content import SETTINGS_FILE, SPDX, Content, below, readme, settings_header

_USE = """
Copy this folder into `lib/` of your project, or name it in `platformio.ini`:

    lib_deps = symlink:///path/to/{name}

The flags below are in `library.json`. `examples/selftest` is a project that runs the self-test on an Arduino core;
choose a board with the core that the models were compiled for in its `platformio.ini`.

Settings (checks, a profile, a watchdog's hook, sections of arena and weights) are `build_flags` of your project, which
reach libraries too, as in `build_flags = -DCORTADO_YIELD`, or definitions in `src/{settings}`.
"""
_BOARDS = {
    "Cortex-M0": "nucleo_f072rb",
    "Cortex-M0+": "nucleo_l053r8",
    "Cortex-M3": "nucleo_f103rb",
    "Cortex-M4": "nucleo_l476rg",
    "Cortex-M7": "nucleo_h743zi",
}


def _board(content: Content) -> str:
    """One with the core, where there is one; else one to be replaced."""
    return next((board for core, board in _BOARDS.items() if content.cores == (core,)), "nucleo_l476rg")


def platformio(content: Content) -> dict[str, str]:
    manifest = {
        "name": content.name,
        "version": content.version,
        "description": content.about,
        "keywords": ["machine learning", "quantized", "cortex-m"],
        "license": SPDX,
        "frameworks": "*",
        "platforms": "*",
        "headers": content.headers,
        "build": {"srcDir": "src", "includeDir": "src", "flags": list(content.options)},
        "examples": [{"name": "selftest", "base": "examples/selftest", "files": ["platformio.ini", "src/main.cpp"]}],
    }
    project = f"""[env:selftest]
; the board is yours to choose: one with the core that the models were compiled for, {content.target}
platform = ststm32
board = {_board(content)}
framework = arduino
lib_deps = symlink://../..
monitor_speed = 115200
"""
    return {
        "library.json": json.dumps(manifest, indent=2) + "\n",
        "README.md": readme(content, "PlatformIO", _USE.format(name=content.name, settings=SETTINGS_FILE)),
        "LICENSE": content.license,
        **below("src", {**content.flat, SETTINGS_FILE: settings_header()}),
        **below("examples/selftest", {"platformio.ini": project, "src/main.cpp": sketch(content)}),
    }
