"""Sends what a worker has to say of a batch: outputs go straight to the gateways, and the batcher is told that the
batch is done. The docks of the worker's slots call it when a batch ends (`dock.py`)."""

from collections import defaultdict
from collections.abc import Sequence

from penstock.cluster.sending import sent
from penstock.ports.bus import Post
from penstock.ports.tasks import Ended, TaskEndings
from penstock.types import Execution, Failure, Outcome, Result
from penstock.words.messages import Answers, Dispatch, Finished, ItemFailure, encode, encode_execution


class WorkerPost:
    """Implements `dock.Report`. Each call returns when its messages are sent, or their receivers have gone."""

    def __init__(self, post: Post, endings: TaskEndings) -> None:
        self._post = post
        self._records = endings

    async def answer(self, batch: Dispatch, result: Result, execution: Execution) -> None:
        """Send every asker its output. `result.outputs` has one entry for every member. The entry of a failed
        member is ignored."""
        keys: defaultdict[str, list[str]] = defaultdict(list)
        outputs: defaultdict[str, list[bytes]] = defaultdict(list)
        endings = []
        size, worker, seconds = len(batch.members), execution.worker, execution.seconds
        recorded = encode_execution(worker, batch.batch_id, size, seconds, result.version)
        waited = 0.0 if execution.sealed is None else max(0.0, execution.started - execution.sealed)
        failures = result.failures or {}  # the batcher tells the askers of failures
        for index, (member, output) in enumerate(zip(batch.members, result.outputs, strict=True)):
            if index in failures:
                continue
            if member.task:
                endings.append(Ended(member.task, Outcome.SUCCESS, output, execution=recorded))
            else:
                keys[member.gateway].append(member.key)
                outputs[member.gateway].append(output)
        messages = [
            (
                gateway,
                encode(
                    Answers(
                        keys[gateway],
                        outputs[gateway],
                        worker,
                        batch.batch_id,
                        size,
                        seconds,
                        result.version,
                        batch.reason,
                        waited,
                        batch.earlier,
                    )
                ),
            )
            for gateway in keys
        ]
        await self._send(messages)
        left: Sequence[Ended] = endings
        while left:  # the batcher must not hear of a success before the results of all tasks are stored
            left = await self._records.settle(left)

    async def finished(self, batch: Dispatch, outcome: Result | Failure, seconds: float) -> None:
        """Tell the batcher that the slot is done with the batch. This is called after `answer`, so that outputs
        have been delivered by then."""
        if isinstance(outcome, Failure):
            message = Finished(
                batch.slot, batch.batch_id, 0, seconds, "",
                outcome.code, outcome.message, outcome.details, outcome.splittable,
                retry_after=outcome.retry_after,
            )  # fmt: skip
        else:
            failed = [
                ItemFailure(index, failure.code, failure.message, failure.details)
                for index, failure in (outcome.failures or {}).items()
            ]
            message = Finished(
                batch.slot, batch.batch_id, len(outcome.outputs), seconds, outcome.version,
                executed=outcome.executed, failed=failed, padding=outcome.padding, pressure=outcome.pressure,
            )  # fmt: skip
        await self._send([(batch.batcher, encode(message))])

    async def _send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        if messages:
            await sent(self._post, messages)
