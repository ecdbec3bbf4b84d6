"""`python -m penstock`: the same as `penstock`."""

import sys

from penstock.cli import main

sys.exit(main())
