"""What identical requests to one deterministic model have in common: the model's version, the rules of its cache,
and counters. `from_config/sharing.py` makes one `Sharing` for the desk of each such model. `flights` and `recall`
go by its rules and count in it, and the metrics show the counts (`runtime/desks.py`). It only keeps and
calculates."""

from collections.abc import Sequence

from penstock.core.fingerprint import Fingerprints
from penstock.core.places import Place, glance
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Reply

WINDOW = 1024  # answers kept between two looks at whether that was worth it
ENOUGH = 10  # hits between two looks that make keeping worth it
FEW = 100.0  # answers a second that are kept where keeping is not worth it


class Sharing:
    """What identical requests to one deterministic model share."""

    def __init__(
        self, model: str, version: str, *, shared: bool, ttl: float, sees_dispatch: bool = True
    ) -> None:
        """`shared`: whether all tenants share answers; otherwise each tenant has its own. `ttl`: the seconds for
        which an answer is given again; 0: never. `sees_dispatch`: whether `waiting` of a request says in this
        process that it has not gone to a worker yet; not so over a bus.
        """
        self.model = model
        self.shared = shared
        self.ttl = ttl
        self.sees_dispatch = sees_dispatch
        # Requests whose answer was remembered, was not, and those for which the shared store was not asked.
        self.hits = self.misses = self.bypassed = 0
        self.stored = 0  # answers that were kept
        self.collapsed = 0  # requests that went along with another's execution
        self._thin = False  # whether hardly anything is asked twice, so that few answers are kept
        self._hits_before = self._stored_before = 0  # `hits` and `stored` when `_thin` was last decided
        # While `_thin`: how many answers could still be kept at the time `_room_at`. It grows by `FEW` a second.
        self._room, self._room_at = 0.0, 0.0
        self._set_version(version)

    def worth_keeping(self, replies: Sequence[Reply], now: float) -> Sequence[Reply]:
        """Returns which of these replies are worth keeping, all of requests that nobody had joined. If hardly
        anything is asked twice, these are only a few a second.

        Filling memory with answers that nobody asks for again costs a busy server as much as everything else that a
        cache does, because it fragments the memory. An answer that is asked for often is soon among the few that
        are kept.
        """
        hits, kept = self.hits - self._hits_before, self.stored - self._stored_before
        if kept >= WINDOW or (self._thin and hits >= ENOUGH):
            self._thin = hits < ENOUGH
            self._hits_before, self._stored_before = self.hits, self.stored
        if not self._thin:
            return replies
        room = min(FEW, self._room + (now - self._room_at) * FEW)
        few = replies[: int(room)]
        self._room, self._room_at = room - len(few), now
        return few

    def learn(self, version: str) -> None:
        """Take in the version that runs now. Answers of other versions are not given again."""
        if version != self.version:
            self._set_version(version)

    def _set_version(self, version: str) -> None:
        self.version = version
        # The model and its version, as one text. No name of a model has the character between them.
        self.epoch = f"{self.model}\0{version}"
        self.fingerprints = Fingerprints(self.model, version, shared=self.shared)

    def place(self, request: Passenger) -> Place:
        """The place where the answer to a request is, or will be."""
        tenant = "" if self.shared else request.tenant
        text = request.input
        return text, request.epoch, tenant, request.parameters, glance(text)
