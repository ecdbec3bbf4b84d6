"""Runs one attack in a process of its own: `python attacker.py MODULE NAME`, then a line for each step.

The server and the victim go first on a small machine, so that a verdict is about the server: this process is nice.
"""

import asyncio
import importlib
import json
import os
import resource
import sys
from contextlib import suppress
from typing import Any

import uvloop

from aim import Aim, Attack

NICE = 10
LONGEST = 15.0  # seconds that it may go on for


def find(module: str, name: str) -> Attack:
    found = vars(importlib.import_module(module)).values()
    return next(each for each in found if isinstance(each, Attack) and each.name == name)


async def _until_told(attack: Attack, aim: Aim) -> None:
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    sending = asyncio.ensure_future(attack.send(aim))
    await asyncio.wait((over, sending), return_when=asyncio.FIRST_COMPLETED)
    if sending.done():
        sending.result()  # an attack that failed is no attack
        await over
    if attack.until:
        await _until_done(attack.until, aim)
    sending.cancel()


async def _until_done(count: str, aim: Aim) -> None:
    """An attack that the machine gave no time to has shown nothing."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST):
            await aim.tally.has(count)


def main() -> None:
    attack = find(*sys.argv[1:])
    os.nice(NICE)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    said: dict[str, Any] = json.loads(sys.stdin.readline())
    aim = Aim(**said)
    print("ready", flush=True)
    sys.stdin.readline()
    began = resource.getrusage(resource.RUSAGE_SELF)
    uvloop.run(_until_told(attack, aim))
    ended = resource.getrusage(resource.RUSAGE_SELF)
    used = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    print(json.dumps({"tally": aim.tally, "cpu": used}), flush=True)
    os._exit(0)  # its connections end here, whatever is left in them


if __name__ == "__main__":
    main()
