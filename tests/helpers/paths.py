"""Where things lie in the repository."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
MODELS = TESTS / "models"
GOLDEN = TESTS / "golden"
CONFORMANCE = TESTS / "conformance"
