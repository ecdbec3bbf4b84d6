"""Starts the command line (`penstock.cli`) for `python -m penstock`: the same as the program `penstock`."""

import sys

from penstock.cli import main

sys.exit(main())
