"""The policies: when a batch goes, and how large. Each is one file, and maps a view of a lane to a decision.

`core/sealing.py` asks the policy of the model for each lane with something in it, whenever a worker is idle, or
shortly before one is. `config` and `advice` read the names from `POLICIES`. A policy imports `base` and nothing
else of `core`.
"""

from penstock.core.policy.base import Decision, Policy, Send, View, Wait
from penstock.core.policy.ewma import Ewma
from penstock.core.policy.greedy import Greedy
from penstock.core.policy.paced import Paced
from penstock.core.policy.table import Table
from penstock.core.policy.window import Window

POLICIES: dict[str, Policy] = {
    "paced": Paced(),
    "window": Window(),
    "ewma": Ewma(),
    "table": Table(),
    "greedy": Greedy(),
}

__all__ = ["POLICIES", "Decision", "Policy", "Send", "View", "Wait"]
