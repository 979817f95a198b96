"""The web package: index.html, MODEL.wasm, MODEL.js with its types, package.json."""

import base64
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cortado import __version__
from cortado.base.names import html_text
from cortado.base.system import DEVICE, KERNELS, WEB_PAGE
from cortado.base.target import WASM_FLAGS
from cortado.emit.c.bundle import emit_c
from cortado.run.harness import harness_source
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from cortado.run.toolchain import build_wasm
from cortado.web.facts import Shown, bands_of, module_facts, page_facts

_SCRIPTS = ("model.js", "sound.js", "draw.js", "views.js", "pictures.js", "teaching.js", "page.js")
_WORKLET = ("sound.js", "worklet.js")
_POLICY = (
    "default-src 'none'; script-src '{script}' 'wasm-unsafe-eval' data:; style-src '{style}'; base-uri 'none'; "
    "form-action 'none'"
)
INDEX = "index.html"


def web_files(shown: Shown) -> dict[str, str | bytes]:
    """Returns the files of the package."""
    prefix = shown.report.prefix
    wasm = web_module(shown)
    return {
        INDEX: web_page(shown, wasm),
        f"{prefix}.wasm": wasm,
        f"{prefix}.js": _script(shown),
        f"{prefix}.d.ts": _read("module.d.ts"),
        "package.json": _manifest(shown),
        "README.md": _readme(shown),
        "LICENSE": (KERNELS / "LICENSE").read_text(),
    }


def _read(name: str) -> str:
    return (WEB_PAGE / name).read_text()


# ---- the module ----------------------------------------------------------------------------------------------------


def web_module(shown: Shown) -> bytes:
    """Compiles the portable C bundle to WebAssembly. It imports nothing."""
    return wasm_of(emit_c(shown.portable).files, harness_source(shown.info), shown.report.prefix, _watching(shown))


def wasm_of(files: Mapping[str, str], glue: str, prefix: str, flags: Sequence[str] = ()) -> bytes:
    """Compiles a portable bundle and its glue to WebAssembly."""
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        folder = Path(temporary) / "bundle"
        write_files(folder, files)
        source = Path(temporary) / "web_model.c"
        source.write_text(glue)
        sources = [*bundle_sources(folder, "c"), source, DEVICE / "web.c"]
        every = [*WARNINGS, *WASM_FLAGS, *flags]
        return build_wasm(sources, [*bundle_includes(folder), DEVICE], every, prefix).read_bytes()


def _watching(shown: Shown) -> list[str]:
    """Returns the flags by which the step of the spectrum drawn keeps its last frame."""
    bands = bands_of(shown.report)
    if bands is None:
        return []
    step = next(i for i, one in enumerate(shown.portable.program.steps) if one.name == bands["layer"])
    return [
        "-DCORTADO_TRACE",
        "-DCORTADO_PROFILE",
        f"-DCORTADO_WEB_STEP={step}u",
        f"-DCORTADO_WEB_BYTES={bands['count']}u",
        f"-DCORTADO_WEB_PROFILE={shown.report.prefix}_profile",
    ]


def _script(shown: Shown) -> str:
    head = f"// {html_text(shown.report.model)}: written by Cortado {__version__}.\n"
    facts = f"export const facts = {_json(module_facts(shown))};\n\n"
    return head + facts + _read("model.js") + _read("module.js")


def _manifest(shown: Shown) -> str:
    prefix = shown.report.prefix
    exports = {"types": f"./{prefix}.d.ts", "default": f"./{prefix}.js"}
    manifest = {
        "name": prefix.lower(),
        "version": shown.report.model_version,
        "description": f"{shown.report.model}, compiled ahead of time by Cortado, as WebAssembly",
        "type": "module",
        "main": f"./{prefix}.js",
        "types": f"./{prefix}.d.ts",
        "exports": {".": exports, f"./{prefix}.wasm": f"./{prefix}.wasm"},
        "files": [INDEX, f"{prefix}.js", f"{prefix}.d.ts", f"{prefix}.wasm", "LICENSE"],
        "license": "SEE LICENSE IN LICENSE",
    }
    return json.dumps(manifest, indent=2) + "\n"


def _readme(shown: Shown) -> str:
    prefix, report = shown.report.prefix, shown.report
    call = (
        "const outputs = model.push(row); // null until there are new ones"
        if report.stream
        else ("const outputs = model.run([input]); // real numbers in the order of the model, or codes")
    )
    return f"""# {prefix} for browsers and Node

Open `index.html` to try the model: it is one file that loads nothing. The other files are an npm package:

```js
import {{ load }} from "{prefix.lower()}";

const model = await load();
{call}
```

`{prefix}.d.ts` has the types. The bits are those of the device: the model's portable C, compiled by clang.

Code: Apache-2.0 (LICENSE). The numbers in `{prefix}.wasm` are the model's own.
"""


# ---- the page ------------------------------------------------------------------------------------------------------


def web_page(shown: Shown, wasm: bytes, report: str | None = None) -> str:
    """Returns the page as a single file, whose policy allows only its own script and style, and no loading. `report` is
    where the report is, for a link."""
    return page_of(shown.report.model, {**page_facts(shown), "report": report}, _assets(shown, wasm))


def page_of(model: str, facts: Mapping[str, Any], assets: Mapping[str, Any]) -> str:
    """Returns the page with these facts and assets, as its scripts read them."""
    script, style = "\n".join(map(_read, _SCRIPTS)), _read("page.css")
    parts = {
        "@POLICY@": _POLICY.format(script=_sha256(script), style=_sha256(style)),
        "@TITLE@": html_text(f"{model}: try it"),
        "@VERSION@": html_text(__version__),
        "@STYLE@": style,
        "@FACTS@": _json(facts),
        "@ASSETS@": _json({"worklet": "\n".join(map(_read, _WORKLET)), **assets}),
        "@SCRIPT@": script,
    }
    pieces = [_read(INDEX)]
    for mark, text in parts.items():  # text filled in is never searched for other marks
        pieces = [one for piece in pieces for one in _filled(piece, mark, text)]
    return "".join(pieces)


class _Filled(str):
    """Text that has been filled into the page."""

    __slots__ = ()


def _filled(piece: str, mark: str, text: str) -> list[str]:
    if isinstance(piece, _Filled) or mark not in piece:
        return [piece]
    before, after = piece.split(mark)
    return [before, _Filled(text), after]


def _assets(shown: Shown, wasm: bytes) -> dict[str, Any]:
    example = shown.example
    return {
        "wasm": base64_of(wasm),
        "example": {
            "inputs": [base64_of(one.tobytes()) for one in example.inputs],
            "outputs": [base64_of(one.tobytes()) for one in example.outputs],
        },
        "recordings": [base64_of(one.samples.astype("<i2").tobytes()) for one in shown.recordings],
    }


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _sha256(text: str) -> str:
    return f"sha256-{base64_of(hashlib.sha256(text.encode()).digest())}"


def _json(value: Any) -> str:
    """Encodes JSON for a script element: nothing in it can end the element or begin a comment."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028")
