"""Measures networks for the table of costs: one line of JSON for each network and target, behind what is there.

python benchmarks/cost_samples.py FILE --networks a1000-1099,l1000-1039,f5000-5039,zoo [--targets cortex-m4,...]

a: random architectures; l, w, b, r: layers side by side, of every kind, with long sums, with large biases, rare ones;
d: small convolutions of all widths; c, u: layers of float32, with exact weights, of 8 bits; i, I, j: windows with
weights of 4 bits, with groups of them, of 16-bit codes; k: plain recurrent layers; m: functions of float32, depthwise
layers, sums, products and reductions; x, y: layers of every kind and those with long sums, of 16-bit codes; z, q: with
4-bit weights; f: the campaign's networks; o: calls of every operator with arguments that its samples draw; v: of those
that have many kernels; e: of those that take elements of several sizes; g, h: of those that take 16-bit codes; n: of
those with 4-bit weights; p: of those of float32; R: of those by row; s: of those on signals; t: of those with many
terms; O: of those that a core has no kernel of its own for; S, T: means over rows of a stream, in int8 and int16; M:
depthwise layers with several outputs of a channel; P: products of two computed matrices; D: transposed convolutions; A:
features of sounds; ds_cnn:float32 and ds_cnn:float32-int8: a network of the zoo in float32, with exact weights and int8
ones. Cores that run the same code share a run.
"""

import argparse
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from _common import progress
from _measuring import measure
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM
from cortado.models import zoo
from cortado.options import Optimize

logging.disable(logging.ERROR)

NETWORKS = (
    "a1000-1027,l1000-1031,d1000-1003,w1000-1010,b1000-1009,r1000-1007,f5000-5012,o1000-1003,v1000-1001,"
    "e1000-1001,g1000-1001,h1000-1001,n1000-1003,p1000-1001,s1000-1001,t1000-1001,x1000-1005,y1000-1005,z1000-1002,"
    "q1000-1003,c1000-1003,u1000-1003,i1000-1003,I1000-1003,j1000-1003,k1000-1001,m1000-1001,"
    "S1000-1015,T1000-1007,M1000-1003,P1000-1007,B1000-1001,R1000,D1000-1003,A1000-1015"
)
TARGETS = ",".join(core.value for core in CortexM if core is not CortexM.ANY)


def names(text: str) -> Iterator[str]:
    """a1000-1003 is a1000, a1001, a1002, a1003; zoo is all of them."""
    for one in text.split(","):
        found = re.fullmatch(r"([a-zA-Z])(\d+)-(\d+)", one)
        if one == "zoo":
            yield from zoo.names()
        elif found is None:
            yield one
        else:
            yield from (f"{found[1]}{seed}" for seed in range(int(found[2]), int(found[3]) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--optimize", choices=[*(one.value for one in Optimize), "mixed"], default="mixed")
    arguments = parser.parse_args()
    lines = arguments.file.read_text().splitlines() if arguments.file.exists() else []
    done = {(line["network"], line["target"]) for line in map(json.loads, lines)}
    for name in names(arguments.networks):
        targets = [target for target in arguments.targets.split(",") if (name, target) not in done]
        mixed = Random(name).choice([*Optimize, Optimize.BALANCED, Optimize.BALANCED])
        optimize = mixed if arguments.optimize == "mixed" else Optimize(arguments.optimize)
        try:
            with arguments.file.open("a") as file:
                for line in measure(name, targets, optimize) if targets else ():
                    file.write(json.dumps(line) + "\n")
                    file.flush()
        except CortadoError as error:
            progress(f"{name}: {str(error).splitlines()[0][:120]}")


if __name__ == "__main__":
    main()
