"""An input that a model has answered. All slots of the model share it. With it a slot tells a sick backend from bad
inputs, and warms up in idle moments (`idle_ladder`).

A backend that refuses batch after batch is either sick, and only a new one can help, or has had nothing but bad
inputs. If it is given once more what was answered before, a healthy one answers.
"""

from penstock.types import Batch, Reason, Request, Result, Seconds

LARGEST = 1 << 16  # bytes of the input that is kept
RECENT = 600.0  # seconds for which an input may be used to warm up


class KnownGood:
    """The last input that the model has answered, for all its slots."""

    def __init__(self) -> None:
        self._input: bytes | None = None
        self._model = ""
        self._parameters = b""
        self._when: Seconds = 0.0  # when the batch was sealed in which it was answered

    def note(self, batch: Batch, result: Result) -> None:
        """Note a batch, of which the first input is kept if all were answered. Batches with a list of parameters,
        one for each input, are left out."""
        payload = batch.requests[0].input
        if not result.failures and len(payload) <= LARGEST and not batch.parameters.startswith(b"["):
            self._input, self._parameters = payload, batch.parameters
            self._model, self._when = batch.model, batch.sealed

    def is_recent(self, now: Seconds) -> bool:
        """Whether the input was answered lately."""
        return self._input is not None and now - self._when <= RECENT

    def batch(self, now: Seconds, size: int = 1) -> Batch | None:
        """A batch that a healthy backend answers, of this input alone; None if nothing has been answered yet."""
        if self._input is None:
            return None
        request = Request("", self._model, self._input, now, now, now)
        return Batch(0, self._model, self._parameters, [request] * size, Reason.DUE, now)
