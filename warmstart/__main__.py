"""Run the command line as ``python -m warmstart``."""

import sys

from warmstart.cli import main

sys.exit(main())
