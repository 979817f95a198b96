"""python -m cortado: the command line."""

import sys

from cortado.cli import main

sys.exit(main())
