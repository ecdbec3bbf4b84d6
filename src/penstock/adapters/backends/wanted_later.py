"""What an endpoint means that refuses a batch for the moment. The backends for endpoints ask when one does so
(`http.py`, `grpc.py`). Pure.

    429, RESOURCE_EXHAUSTED            BackendBusy: the endpoint is there, and wants the batch later
    503 or UNAVAILABLE with a time     the same, after that time
    503 or UNAVAILABLE without         BackendUnavailable: nobody knows when it will be back
"""

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from penstock.errors import BackendBusy, BackendError, BackendUnavailable


def refused_for_now(said: str, *, busy: bool, wait: float | None, details: str = "") -> BackendError:
    """Returns the error. `said`: what the endpoint answered, for the message. `busy`: whether the status itself
    says that the endpoint is well. `wait`: the seconds that the endpoint named; None if it named none."""
    if busy or wait is not None:
        return BackendBusy(f"{said}: it is busy", retry_after=wait, details=details)
    return BackendUnavailable(said, details=details)


def seconds_in(headers: Mapping[str, str]) -> float | None:
    """Returns how long the headers of an answer say to wait; None if they do not."""
    exact = _number(headers.get("retry-after-ms", ""))
    if exact is not None:
        return exact / 1000.0
    text = headers.get("Retry-After", "").strip()
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
