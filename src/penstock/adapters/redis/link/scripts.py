"""Lua scripts, for steps that Redis must do as one. `bus/scripts.py` and the scripts of `records` are made of
`Script`.

A script may run when Redis' memory is full (`allow-oom`), unless it is made with other flags: what it
writes is small. Times are the server's own, read inside the script, because the clocks of our processes
differ.
"""

from collections.abc import Sequence
from hashlib import sha1
from typing import Any

from redis.exceptions import NoScriptError

from penstock.adapters.redis.link.connect import Client, Store

# The beginning of a script that needs the time: `now` is in milliseconds since the epoch, by the server's clock.
NOW = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
"""

Argument = str | bytes | int | float
Call = tuple[Sequence[str | bytes], Sequence[Argument]]  # keys, arguments


class Script:
    """One script. It is sent by its digest, or by its text where the server has not seen it (after a restart, a
    flush or a failover)."""

    __slots__ = ("_digest", "_text")

    def __init__(self, text: str, flags: str = "allow-oom") -> None:
        self._text = f"#!lua flags={flags}\n{text}"
        self._digest = sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, client: Client, keys: Sequence[str], args: Sequence[Argument] = ()) -> Any:
        try:
            return await client.execute_command("EVALSHA", self._digest, len(keys), *keys, *args)
        except NoScriptError:
            return await client.execute_command("EVAL", self._text, len(keys), *keys, *args)

    async def each(self, store: Store, calls: Sequence[Call]) -> list[Any]:
        """Returns the answer to each call, or the error that it met."""
        answers = await store.each(
            [("EVALSHA", self._digest, len(keys), *keys, *args) for keys, args in calls]
        )
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        again = await store.each(
            [("EVAL", self._text, len(calls[i][0]), *calls[i][0], *calls[i][1]) for i in unknown]
        )
        for index, answer in zip(unknown, again, strict=True):
            answers[index] = answer
        return answers
