"""docs/report.md, made from the JSON Schema of the report: one place says what a key means."""

from typing import Any

HEAD = """# report.json

The facts about a compiled model, for programs: `report.json` in its folder, which `cortado compile --json` also prints,
and `compiled.report` in Python:

```python
compiled.report.memory.arena_bytes
compiled.report.to_json()["memory"]["arena_bytes"]  # what the file holds, as dictionaries and lists
```

[report.schema.json](report.schema.json) describes the same keys as a JSON Schema (draft 2020-12), including the limits
of values. Both are generated from the classes in `src/cortado/artifact/report.py` by `make golden`.

## The contract

- Keys are added, never renamed or removed, and none changes its type or its meaning. A program that reads reports must
  ignore keys that it doesn't know.
- Every key below is in every report of this version, in this order; null or an empty list means that it does not apply.
- `schema_version` is {version}. It rises with a release of Cortado that adds keys.
- Cortado reads reports of its own version and of older ones; a report without `schema_version` is older than the first.
  A key that an older report lacks has its default if the schema names one, and is an error if not: compile the model
  again. A newer report is refused: update Cortado, or compile the model again.
- Any other mismatch is an error with exit code 2 that names the place, such as `inputs[0].scale`, what was found and
  what was expected.
- The same model, data and version give the same report but for `compile_seconds`. `profile`, `fidelity` and
  `evaluation` are null until `cortado profile`, `validate` or `evaluate` adds them with `--save`.
"""


FOOT = """
## report.html

The same for people, in one self-contained file: the arena as a map (addresses over time, every buffer a rectangle), RAM
over time, layers, scales and warnings. Point at a buffer to see what it is; or reach the map with Tab and move: left
and right in the order of creation, up and down by address; Enter zooms in, Escape out.

Cycles are estimates from a table of kernel costs until they are measured:

    cortado profile DIR --save                  # instructions and cycles of each layer
    cortado validate DIR --per-layer --save     # how far each layer is from the float model
    cortado evaluate DIR --save                 # accuracy on a dataset

Each writes its figures into report.json (`profile`, `fidelity`, `evaluation`) and report.html, both or neither; all
other files stay unchanged. `cortado compare A B` shows the reports of several compiles side by side.
"""


def page(schema: dict[str, Any], version: int) -> str:
    classes = [schema, *schema["$defs"].values()]
    return HEAD.replace("{version}", str(version)) + "".join(map(_class, classes)) + FOOT


def _class(cls: dict[str, Any]) -> str:
    rows = "".join(
        f"| `{name}` | {_kind(item)} | {item['description']} |\n" for name, item in cls["properties"].items()
    )
    return f"\n## {cls['title']}\n\n{cls['description']}\n\n| key | type | meaning |\n|---|---|---|\n{rows}"


def _kind(item: dict[str, Any]) -> str:
    if "anyOf" in item:
        return " or ".join(_kind(one) for one in item["anyOf"])
    if "$ref" in item:
        name = item["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in item:
        return ", ".join(f"`{word}`" for word in item["enum"])
    if item["type"] == "array":
        return f"list of {_kind(item['items'])}"
    if item["type"] == "object":
        return f"object, of {_kind(item['additionalProperties'])}"
    return str(item["type"])
