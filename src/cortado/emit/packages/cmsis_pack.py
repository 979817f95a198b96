"""A CMSIS-Pack: the description, and the archive that pack managers install."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from cortado.base.target import Isa
from cortado.emit.packages.content import Content, below, example, readme

VENDOR = "Cortado"
_SCHEMA, _SCHEMA_WITH_M52 = "1.7.7", "1.7.31"  # the first that know the Cortex-M85, and the Cortex-M52
_MOMENT = (2020, 1, 1, 0, 0, 0)  # the timestamp of every file: two compiles give the same bytes
_USE = """
Install `{archive}` with `cpackget add {archive}` or your IDE's pack manager, then choose the component
"Machine Learning > Model > {name}" for a device with a core that the models were compiled for. In a csolution project:

```yaml
packs:
  - pack: Cortado::{name}@{version}
components:
  - component: Cortado::Machine Learning:Model:{name}
```

`example/main.c` runs the self-test; it is part of the component's code templates.
"""


def cmsis_pack(content: Content) -> dict[str, str | bytes]:
    archive = f"{VENDOR}.{content.name}.{content.version}.pack"
    use = _USE.format(name=content.name, version=content.version, archive=archive)
    inside = {
        f"{VENDOR}.{content.name}.pdsc": _description(content),
        "README.md": readme(content, "CMSIS-Pack", use),
        "LICENSE": content.license,
        **content.files,
        **below("example", {"main.c": example(content, "<stdio.h>", "", "printf", "    return wrong;\n")}),
    }
    return {archive: _zip(inside), "README.md": inside["README.md"]}


def _zip(files: Mapping[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), text, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def _description(content: Content) -> str:
    root = Element("package", {"schemaVersion": _SCHEMA_WITH_M52 if "Cortex-M52" in content.cores else _SCHEMA})
    for name, text in (
        ("vendor", VENDOR),
        ("name", content.name),
        ("description", f"{content.about}."),
        ("url", "https://example.com/"),
        ("license", "LICENSE"),
    ):
        SubElement(root, name).text = text
    release = SubElement(SubElement(root, "releases"), "release", {"version": content.version})
    release.text = f"Compiled models, id {content.identity}."
    condition = SubElement(SubElement(root, "conditions"), "condition", {"id": "core"})
    SubElement(condition, "description").text = f"a core that the models were compiled for: {content.target}"
    for core in content.cores:
        for needed in _needed(content.isa):
            SubElement(condition, "accept", {"Dcore": core, **needed})
    _component(SubElement(root, "components"), content)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _needed(isa: Isa | None) -> Sequence[Mapping[str, str]]:
    """Returns the alternative extensions, one of which a device needs besides its core: the same core comes with and
    without."""
    if isa is Isa.MVE:
        return ({"Dmve": "MVE"}, {"Dmve": "FP_MVE"})
    return ({"Ddsp": "DSP"},) if isa is Isa.DSP else ({},)


def _component(components: Element, content: Content) -> None:
    component = SubElement(
        components,
        "component",
        {
            "Cclass": "Machine Learning",
            "Cgroup": "Model",
            "Csub": content.name,
            "Cversion": content.version,
            "condition": "core",
        },
    )
    SubElement(component, "description").text = content.about
    files = SubElement(component, "files")
    for folder in ("./", "kernels/include/", "kernels/src/"):
        SubElement(files, "file", {"category": "include", "name": folder})
    for name in content.headers:
        SubElement(files, "file", {"category": "header", "name": name})
    for name in content.sources:
        kind = "sourceC" if PurePosixPath(name).suffix == ".c" else "sourceAsm"
        SubElement(files, "file", {"category": kind, "name": name})
    SubElement(
        files, "file", {"category": "source", "name": "example/main.c", "attr": "template", "select": "Self-test"}
    )
    SubElement(files, "file", {"category": "doc", "name": "README.md"})
