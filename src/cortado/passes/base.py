"""The base of all passes."""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch.fx import GraphModule

from cortado.passes.verify import Level


class CortexMPass(ABC):
    """One rewrite of the graph; the class docstring is its contract.

    A pass whose __init__ has parameters called `exported_program` or `target_config` is given them by the manager.
    """

    name: ClassVar[str]
    level_before: ClassVar[Level]
    level_after: ClassVar[Level]

    @abstractmethod
    def run(self, module: GraphModule) -> bool:
        """Rewrites the graph in place; True if anything changed."""
