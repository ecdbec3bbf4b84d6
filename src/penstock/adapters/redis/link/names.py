"""The names of all keys in Redis, in one place. Every file of `redis/bus` and `redis/records` uses them, as
`store.keys`.

The part in braces is a cluster's hash tag. Keys that one script or transaction touches have the same tag, so that
they are on one node.
"""

import re
from zlib import crc32

from penstock.idempotency import MARK

# Tasks are spread over so many buckets. Each is one hash slot, with the list of its tasks that have ended.
TASK_BUCKETS = 16
# The type of each kind of key, by its name within the namespace. API keys are left out, so that a key in their
# place is never put out of the way (`misfits.py`).
TYPES = tuple(
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        (r"s\d+\}:requests", "stream"),
        (r"s\d+\}:(lease|fence)", "string"),
        (r"m:.*\}:idle(:.+)?", "zset"),
        (r"box:.*\}", "stream"),
        (r"reg\}:(pulse|models|gateways|batchers|workers|autoscalers)", "hash"),
        (r"lead:.*\}:(lease|fence)", "string"),
        (r"t\d+\}:task:.*", "hash"),
        (r"t\d+\}:watch:.*", "set"),
        (r"t\d+\}:ended", "stream"),
        (r"t\d+\}:crowded-out", "string"),
        (r"c\d+\}:.*", "string"),
        (r"quota\}:[01]", "hash"),
        (r"quota\}:short", "zset"),
        (r"keys\}:stamp", "string"),
        (r"dlq\}", "stream"),
        (r"dlq\}:held", "hash"),
        (r"dlq\}:held:.*", "list"),
        (r"(held|t\d+)\}:(tasks|keyed)", "hash"),
        (r"(held|t\d+)\}:(tasks|keyed):(index|of:.*)", "zset"),
        (r"aside\}", "stream"),
    )
)


class Keys:
    """The names under one namespace, so that several installations can share a server."""

    __slots__ = ("_clustered", "aside", "dlq", "letters_held", "namespace")

    def __init__(self, namespace: str, *, clustered: bool = False) -> None:
        self.namespace = namespace
        self._clustered = clustered
        self.dlq = f"{{{namespace}:dlq}}"  # stream: the dead letters
        # hash: how many dead letters there are, and of what size (`records/holdings.py`)
        self.letters_held = f"{{{namespace}:dlq}}:held"
        self.aside = f"{{{namespace}:aside}}"  # stream: what could not be read

    def shard(self, shard: int) -> str:
        """Stream: envelopes of accepted requests."""
        return f"{{{self.namespace}:s{shard}}}:requests"

    def lease(self, shard: int) -> str:
        """String: which batcher reads the shard; expires with its lease."""
        return f"{{{self.namespace}:s{shard}}}:lease"

    def fence(self, shard: int) -> str:
        """Counter: how often the shard has changed hands; outlives the lease."""
        return f"{{{self.namespace}:s{shard}}}:fence"

    def idle(self, model: str, zone: str = "") -> str:
        """Sorted set: slots of a zone that wait for a batch of the model, first come first served."""
        return f"{{{self.namespace}:m:{model}}}:idle" + (f":{zone}" if zone else "")

    def lead(self, of: str) -> list[str]:
        """String and counter: which process leads the others, and how often that has changed."""
        return [f"{{{self.namespace}:lead:{of}}}:lease", f"{{{self.namespace}:lead:{of}}}:fence"]

    def box(self, owner: str) -> str:
        """Stream: what is sent to one process."""
        return f"{{{self.namespace}:box:{owner}}}"

    def registry(self, kind: str) -> str:
        """Hash: the members of one kind (gateways, batchers, workers, autoscalers), or the models."""
        return f"{{{self.namespace}:reg}}:{kind}"

    def task(self, name: str) -> str:
        """Hash: the record of an asynchronous task."""
        return f"{self._bucket(name)}:task:{name}"

    def watch(self, name: str) -> str:
        """Set: mailboxes of the gateways that wait for the task."""
        return f"{self._bucket(name)}:watch:{name}"

    def answer(self, part: int) -> bytes:
        """Strings: the answers of deterministic models in one part of the cache. The fingerprint of an answer is
        the rest of its key."""
        return f"{{{self.namespace}:c{part}}}:".encode()

    def ended(self, bucket: int) -> str:
        """Stream: tasks that have ended and are not in the ledger yet. It exists only where a ledger is kept."""
        return f"{{{self.namespace}:t{bucket}}}:ended"

    def crowded_out(self, bucket: int) -> str:
        """Counter: tasks that were dropped from the stream `ended` because it was full and no ledger took them."""
        return f"{{{self.namespace}:t{bucket}}}:crowded-out"

    def held(self, name: str) -> list[str]:
        """Hash and sorted set: what tenants hold of tasks, or of requests with an Idempotency-Key
        (`records/holdings.py`). In a cluster they are in the hash slot of the task."""
        start = self._bucket(name) if self._clustered else f"{{{self.namespace}:held}}"
        kind = "keyed" if f"/{MARK}" in name else "tasks"
        return [f"{start}:{kind}", f"{start}:{kind}:index"]

    def all_of_task(self, name: str) -> list[str]:
        """Returns the keys that the scripts which end a task touch."""
        bucket = bucket_of(name)
        own = [self.task(name), self.watch(name), self.ended(bucket), self.crowded_out(bucket)]
        return own + self.held(name)

    def type_of(self, key: str) -> str | None:
        """Returns the type that a key of ours should have; None if the name is not one of ours."""
        start = f"{{{self.namespace}:"
        if not key.startswith(start):
            return None
        name = key[len(start) :]
        return next((kind for pattern, kind in TYPES if pattern.fullmatch(name)), None)

    def _bucket(self, name: str) -> str:
        return f"{{{self.namespace}:t{bucket_of(name)}}}"


def bucket_of(name: str) -> int:
    """Returns the bucket that a task is in."""
    return crc32(name.encode()) % TASK_BUCKETS
