"""The model of each core's timing."""

from collections.abc import Mapping

from cortado.base.target import CortexM
from cortado.timing import pipelines, tables
from cortado.timing.cycles import CoreTiming

MODELS: Mapping[CortexM, CoreTiming] = {
    CortexM.M0: tables.M0,
    CortexM.M0PLUS: tables.M0PLUS,
    CortexM.M3: tables.M3,
    CortexM.M4: tables.M4,
    CortexM.M7: pipelines.M7,
    CortexM.M23: tables.M23,
    CortexM.M33: pipelines.M33,
    CortexM.M35P: pipelines.M33,  # the M33 with a cache and protection against tampering
    CortexM.M52: pipelines.M52,
    CortexM.M55: pipelines.M55,
    CortexM.M85: pipelines.M85,
}
