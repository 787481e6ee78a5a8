"""Run the command line as ``python -m warmstart``."""

import sys

if not sys.flags.safe_path:
    # Python puts the working folder first for -m; no file there replaces a module of Python or of a package.
    sys.path.append(sys.path.pop(0))

from warmstart.cli import main

sys.exit(main())
