"""A plugin for pytest: as if jh2 were not installed, as in a plain `pip install penstock`."""

import sys

sys.modules["jh2"] = None  # type: ignore[assignment]
