"""Memory planning: problem, plan, lower bound, and a validator that shares no code with the planner."""

from cortado.memory.planner import lower_bound, plan
from cortado.memory.problem import (
    Buffer,
    Effort,
    Moment,
    Overlay,
    Plan,
    Problem,
    SearchEffort,
    peak_buffers,
    read_csv,
    timeline,
    write_csv,
)
from cortado.memory.validate import validate

__all__ = [
    "Buffer",
    "Effort",
    "Moment",
    "Overlay",
    "Plan",
    "Problem",
    "SearchEffort",
    "lower_bound",
    "peak_buffers",
    "plan",
    "read_csv",
    "timeline",
    "validate",
    "write_csv",
]
