"""Every name in Redis, in one place.

What stands in braces is a cluster's hash tag: keys that one script or transaction touches share it.
"""


class Keys:
    """The names under one namespace, so that several installations can share a server."""

    __slots__ = ("dlq", "namespace")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.dlq = f"{{{namespace}:dlq}}"  # stream: what was given up on

    def shard(self, shard: int) -> str:
        """Stream: envelopes of accepted requests."""
        return f"{{{self.namespace}:s{shard}}}:requests"

    def lease(self, shard: int) -> str:
        """String: which batcher reads the shard; expires with its lease."""
        return f"{{{self.namespace}:s{shard}}}:lease"

    def fence(self, shard: int) -> str:
        """Counter: how often the shard has changed hands; outlives the lease."""
        return f"{{{self.namespace}:s{shard}}}:fence"

    def idle(self, model: str) -> str:
        """Sorted set: slots that wait for a batch of the model, first come first served."""
        return f"{{{self.namespace}:m:{model}}}:idle"

    def box(self, owner: str) -> str:
        """Stream: what is sent to one process."""
        return f"{{{self.namespace}:box:{owner}}}"

    def registry(self, kind: str) -> str:
        """Hash: who is there (gateways, batchers, workers), or the models."""
        return f"{{{self.namespace}:reg}}:{kind}"

    def task(self, task_id: str) -> str:
        """Hash: the record of an asynchronous task."""
        return f"{{{self.namespace}:t:{task_id}}}"

    def watch(self, task_id: str) -> str:
        """Set: mailboxes of the gateways that wait for the task."""
        return f"{{{self.namespace}:t:{task_id}}}:watch"

    def answer(self, place: int) -> bytes:
        """Strings: what a deterministic model said, by fingerprint, which is the rest of the key."""
        return f"{{{self.namespace}:a{place}}}:".encode()
