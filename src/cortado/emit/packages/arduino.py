"""Arduino: a library with all files in one folder, since there is one include path and no choice of flags.

PlatformIO: a library with library.json, also in one folder.
"""

import json

from cortado.emit.packages.content import SETTINGS_FILE, SPDX, Content, arena, below, lines, readme, settings_header

# ---- arduino ---------------------------------------------------------------------------------------------

_USE = """
Copy this folder into `libraries/` of your sketchbook (or Sketch > Include Library > Add .ZIP Library), open
File > Examples > {name} > SelfTest, and choose a board with the core that the models were compiled for. Arduino
compiles with its own flags: the bits are the same, but some kernels are slower than with the flags below.

Settings (checks, a profile, a watchdog's hook, sections of arena and weights) are definitions in `src/{settings}`.
"""


def arduino(content: Content) -> dict[str, str]:
    root = {
        "library.properties": _properties(content),
        "README.md": readme(content, "Arduino", _USE.format(name=content.name, settings=SETTINGS_FILE)),
        "LICENSE": content.license,
        **below("src", {**content.flat, SETTINGS_FILE: settings_header()}),
        "examples/SelfTest/SelfTest.ino": sketch(content),
    }
    return below(content.name, root)  # the folder has the library's name


def _properties(content: Content) -> str:
    return f"""name={content.name}
version={content.version}
author=Cortado
maintainer=Cortado
sentence={content.about}.
paragraph=C with one arena each: no heap, no interpreter. The example checks every bit on the board.
category=Data Processing
url=https://example.com/
architectures=*
includes={",".join(content.headers)}
dot_a_linkage=true
"""


def sketch(content: Content) -> str:
    """Returns the self-test as a sketch."""
    includes = "\n".join(f"#include <{header}>" for header in content.headers)
    calls = lines(
        (f'report("{model}", {model}_selftest(&arena.{model}), {model}_selftest_names);' for model in content.models),
        "  ",
    )
    return f"""// Runs every model on a test input and compares every layer, bit for bit.
#include <Arduino.h>
{includes}

{arena(content)}

static void report(const char *model, int layer, const char *const *names) {{
  Serial.print(model);
  if (layer == 0) {{
    Serial.println(": every bit as expected");
    return;
  }}
  Serial.print(": wrong from layer ");
  Serial.print(layer);
  Serial.print(" on: ");
  Serial.println(layer > 0 ? names[layer - 1] : "the arena");
}}

void setup() {{
  Serial.begin(115200);
  while (!Serial) {{
  }}
{calls}
}}

void loop() {{
}}
"""


# ---- platformio ------------------------------------------------------------------------------------------

_PLATFORMIO_USE = """
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
    """Returns a board with the core if one is known, else one for the user to replace."""
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
; choose a board with the core that the models were compiled for, {content.target}
platform = ststm32
board = {_board(content)}
framework = arduino
lib_deps = symlink://../..
monitor_speed = 115200
"""
    return {
        "library.json": json.dumps(manifest, indent=2) + "\n",
        "README.md": readme(content, "PlatformIO", _PLATFORMIO_USE.format(name=content.name, settings=SETTINGS_FILE)),
        "LICENSE": content.license,
        **below("src", {**content.flat, SETTINGS_FILE: settings_header()}),
        **below("examples/selftest", {"platformio.ini": project, "src/main.cpp": sketch(content)}),
    }
