"""A tenant sends inputs that the function prints: half a megabyte each, binary, and never a newline."""

from pathlib import Path

from aim import Aim, Attack, Withstands
from stage import Stage

CLIENTS = 2
PRINTING = Stage("up", keys=True, target=f"{Path(__file__).with_name('printing.py')}:batchstring")


async def send(aim: Aim) -> None:
    request = aim.post(b'{"input": "print:"}')

    async def one() -> None:
        await aim.ask(await aim.open(), request)

    await aim.crowd(CLIENTS, one)


PRINTED = Attack(
    "endless lines", "A tenant makes the function print without end and without a newline.", send, PRINTING
)


def test_a_function_that_prints_without_end_costs_nobody_else(withstands: Withstands) -> None:
    verdict = withstands(PRINTED)
    assert verdict.tally["200"] == sum(verdict.tally[name] for name in verdict.tally if name.isdigit())
