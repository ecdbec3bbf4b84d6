"""All that Redis keeps for an installation: hands out the records of each kind. Each gateway, batcher and worker
has one (`roles/redis.py`) and takes from it what it needs."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.records.answer_cache import RedisAnswers
from penstock.adapters.redis.records.dead_letters import RedisLetters
from penstock.adapters.redis.records.ended_tasks import EndedTasks
from penstock.adapters.redis.records.holdings import Bounds
from penstock.adapters.redis.records.idempotency import RedisClaims
from penstock.adapters.redis.records.quotas import SharedLimiter
from penstock.adapters.redis.records.task_endings import RedisEndings
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.ports import Clock
from penstock.ports.tasks import RecordTasks


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of each kind is kept, and for how many seconds."""

    tasks: Bounds
    keyed: Bounds
    letters: Bounds
    results: float  # seconds for the result of a task
    keys: float  # seconds for the outcome of a request with an Idempotency-Key
    dead: float  # seconds for a dead letter


class RedisRecords:
    """Implements `ports.records.Records`."""

    def __init__(self, store: Store, post: Post, keep: Keep) -> None:
        self._store, self._post, self._keep = store, post, keep
        self.answers = RedisAnswers(store)
        self.claims = RedisClaims(store, post, keep.keys, keep.results, keep.keyed)
        self.endings = RedisEndings(store, post)
        self.letters = RedisLetters(store, keep.letters, keep.dead)

    def tasks(self, box: str) -> RedisTasks:
        return RedisTasks(self._store, box, self._post, self._keep.results, self._keep.tasks)

    def ended_tasks(
        self, chosen: Callable[[], bool], record: RecordTasks, lost: Callable[[int], None]
    ) -> EndedTasks:
        return EndedTasks(self._store, chosen, record, lost)

    def quotas(self, me: str, clock: Clock, gateways: Callable[[], int]) -> SharedLimiter:
        return SharedLimiter(self._store, me, clock, gateways)
