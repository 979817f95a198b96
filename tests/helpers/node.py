"""Modules of web packages in Node."""

import json
import subprocess
from typing import Any

from cortado.artifact.opened import Artifact

RUN = """
import { readFileSync } from "node:fs";
const { load } = await import(process.argv[1]);
const model = await load();
const given = JSON.parse(readFileSync(0));
const results = given.map((one) => %s);
console.log(JSON.stringify(results.map((outputs) => outputs && outputs.map(({ codes }) => [...codes].map(Number)))));
"""


def in_node(artifact: Artifact, given: Any, each: str) -> Any:
    """What the module makes of each of the given values."""
    script = artifact.folder / "web" / f"{artifact.report.prefix}.js"
    done = subprocess.run(
        ["node", "--input-type=module", "-e", RUN % each, str(script)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
