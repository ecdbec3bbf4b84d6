"""What a worker announces of a model, so that gateways and batchers treat it alike. The worker makes it of its
configuration (`cluster/announcements.py`), the registry carries it, and gateways and batchers read it.

The target and headers of a model are not in it: only the worker needs to know where it runs and with which secrets.
"""

from msgspec import UNSET, UnsetType, structs

from penstock.words.basics import Finite, RegistryWord, reader


class ModelAnnouncement(RegistryWord, kw_only=True):
    """One model. Names and defaults are those of its section in the configuration."""

    max_batch: int = 64
    max_wait: Finite = 0.05
    policy: str = "paced"
    input: str = "json"  # the kind of input that the target takes: text or json
    output: str = "auto"
    cost: str = "requests"
    max_cost: Finite | None = None
    group_lengths: bool = False
    reserve: int = 0
    version: str = ""  # the model's version
    parameters: str = "shared"
    deterministic: bool = False
    cache: str = "tenant"
    cache_ttl: Finite = 300.0
    default: bool = False
    respond: str | None = None
    # The time limits, in seconds; None: each process goes by its own [timeouts].
    queue_timeout: Finite | None = None
    processing_timeout: Finite | None = None
    request_timeout: Finite | None = None
    first_batch_timeout: Finite | None = None
    takes_parameters: bool = True
    parameter_names: list[str] | None = None  # the names of the parameters that the model takes; None: any
    scalar_parameters: bool = False  # whether the model takes strings, numbers and switches only
    # What a batch costs. Absent if it costs what its requests cost together: an older process knows nothing else.
    batch_cost: str | UnsetType = UNSET
    # The sizes that a batch may have. Absent if any size is allowed, which is all that an older process knows.
    batch_sizes: str | tuple[int, ...] | UnsetType = UNSET
    # The latency, in seconds, that its requests are meant to keep. Absent if its configuration names none.
    objective: Finite | UnsetType = UNSET

    @property
    def batching(self) -> "ModelAnnouncement":
        """The part that matters to a batcher: only gateways have a use for the rest."""
        return structs.replace(self, takes_parameters=True, parameter_names=None, objective=UNSET)


read_announcement = reader(ModelAnnouncement)
