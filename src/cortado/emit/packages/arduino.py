"""Arduino: a library with all its files in one folder, for there is one include path and no choice of flags."""

from cortado.emit.packages.content import SETTINGS_FILE, Content, arena, below, lines, readme, settings_header

_USE = """
Copy this folder into `libraries/` of your sketchbook (or Sketch > Include Library > Add .ZIP Library), open
File > Examples > {name} > SelfTest, and choose a board with the core that the models were compiled for. Arduino
compiles with flags of its own: the bits are the same, some kernels are slower than with the flags below.

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
    """The self-test as a sketch."""
    includes = "\n".join(f"#include <{header}>" for header in content.headers)
    calls = lines(
        (f'report("{model}", {model}_selftest(&arena.{model}), {model}_selftest_names);' for model in content.models),
        "  ",
    )
    return f"""// Runs every model on an input of its own and compares every layer, bit for bit.
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
