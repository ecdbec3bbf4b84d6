"""How a dead letter is shown on the admin plane, and what the log says of it. Whoever keeps dead letters uses this:
`runtime/dead_letters.py` in one process; over a bus `cluster/dead_letters.py`, which shows them, and
`cluster/letter_writer.py`, which writes them."""

import logging
from collections.abc import Sequence
from typing import Any

from penstock.payload import told
from penstock.types import DeadLetter
from penstock.units import iso_time

log = logging.getLogger("penstock.dead_letters")

MOST_LINES = 10  # lines in the log for letters that come at once; of further ones it tells the number


def described(letter: DeadLetter) -> dict[str, Any]:
    """A letter as it stands in the list."""
    return {
        "id": letter.id,
        "time": iso_time(letter.when),
        "request_id": letter.request_id,
        "model": letter.model,
        "tenant": letter.tenant,
        "tier": letter.tier,
        "attempts": letter.attempts,
        "error": letter.code,
        "message": letter.message,
    }


def in_full(letter: DeadLetter) -> dict[str, Any]:
    """A letter with its history, its input and its parameters."""
    return {
        **described(letter),
        "details": letter.details,
        "history": [
            {
                "time": iso_time(attempt.when),
                "error": attempt.code,
                "message": attempt.message,
                "details": attempt.details,
                "worker": attempt.worker,
                "batch_size": attempt.batch_size,
            }
            for attempt in letter.history
        ],
        **told(letter.input),
        "parameters": letter.parameters.decode(errors="replace"),
    }


def say_so(letters: Sequence[DeadLetter]) -> None:
    """Tell of these letters in the log. Nothing that a client has sent is logged, not even its request id: the
    letter's own id leads to that."""
    for letter in letters[:MOST_LINES]:
        log.warning(
            "dead letter",
            extra={
                "id": letter.id,
                "model": letter.model,
                "code": letter.code,
                "attempts": letter.attempts,
            },
        )
    if len(letters) > MOST_LINES:
        log.warning("more dead letters", extra={"letters": len(letters) - MOST_LINES})


def say_dropped(number: int) -> None:
    log.warning(
        "dead letters made room for newer ones: redis.max_dead_letters, limits.max_dead_letter_bytes and"
        " limits.tenant_share bound them",
        extra={"letters": number},
    )
