"""An input that a model has answered, to tell a sick backend from bad inputs.

A backend that refuses batch after batch is either sick, and only a new one can help, or has had nothing but bad
inputs. Asked once more for what was answered before, a healthy one answers.
"""

from penstock.types import Batch, Reason, Request, Result, Seconds

LARGEST = 1 << 16  # bytes of the input that is kept


class KnownGood:
    """One input that the model has answered, for all its slots."""

    def __init__(self) -> None:
        self._input: bytes | None = None
        self._parameters = b""

    def note(self, batch: Batch, result: Result) -> None:
        """Note a batch that was answered in full. Of parameters that stand in a list, one for each input, none
        can be kept."""
        payload = batch.requests[0].input
        if not result.failures and len(payload) <= LARGEST and not batch.parameters.startswith(b"["):
            self._input, self._parameters = payload, batch.parameters

    def batch(self, model: str, now: Seconds) -> Batch | None:
        """A batch that a healthy backend answers; None if nothing has been answered yet."""
        if self._input is None:
            return None
        request = Request("", model, self._input, now, now, now)
        return Batch(0, model, self._parameters, [request], Reason.DUE, now)
