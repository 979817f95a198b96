"""The campaign behind `make fuzz`: random networks, hostile names, damaged folders and interrupts.

`python -m fuzz --help` (with this folder's parent on PYTHONPATH) says what may be chosen; docs/testing.md says what was
found. A network is a seed: the same seed is the same network, weights and data on every machine.
"""

import os

# No bundle allocates anything, and looking for leaks takes a sanitized program seconds at its end.
os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
