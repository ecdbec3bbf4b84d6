"""Whatever a function prints, it is answered, the server lives, and the log stays readable."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from process_kit import FUNCTIONS, Started, outputs

from penstock.adapters.backends.printout import BURST, RATE
from penstock.printed import LONGEST

pytestmark = pytest.mark.usefixtures("patient_processes")

MANY = 64 << 20
LEFT_OUT = "a function printed more than the log takes: the rest was left out"


@pytest.mark.parametrize("kind", ["lines", "endless", "binary"])
def test_of_a_flood_the_log_gets_its_part_and_the_number_of_bytes_that_are_missing(
    kind: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> float:
        loop = asyncio.get_running_loop()
        async with Started("flood") as backend:
            began = loop.time()
            assert await outputs(backend, f"{kind} {MANY}") == [f"{kind} {MANY}"]
        return loop.time() - began

    seconds = asyncio.run(body())
    shown = capfd.readouterr().err.encode()
    assert max(map(len, shown.splitlines())) <= 3 * LONGEST  # a byte that is no text is shown as three
    assert len(shown) <= 3 * (BURST + (seconds + 1.0) * RATE)
    told = [record for record in caplog.records if record.getMessage() == LEFT_OUT]
    missing = sum(vars(record)["bytes"] for record in told)
    if kind == "lines":
        assert missing + len(shown) == pytest.approx(MANY, abs=200)  # a torn line at either end
    assert missing >= MANY - 2 * (BURST + (seconds + 1.0) * RATE)


def test_a_line_that_has_no_end_yet_is_shown_while_the_function_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def body() -> str:
        async with Started("flood") as backend:
            await outputs(backend, "bare 1")
            shown = ""
            async with asyncio.timeout(60):
                while "?" not in shown:
                    await asyncio.sleep(0.01)
                    shown += capfd.readouterr().err
            return shown

    assert asyncio.run(body()) == "?\n"


def test_the_last_words_of_a_process_that_crashes_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    async def body() -> None:
        async with Started("segfault") as backend:
            with pytest.raises(Exception, match="SIGSEGV"):
                await outputs(backend, "a")

    asyncio.run(body())
    assert "Fatal Python error: Segmentation fault" in capfd.readouterr().err


SERVER = """
import asyncio, sys
from penstock.adapters.backends.process import ProcessBackend
from penstock.types import Batch, Reason, Request

async def main(target, text):
    backend = ProcessBackend(target)
    await backend.start()
    request = Request("k", "m", text.encode(), 0, 9, 9)
    result = await backend.run(Batch(1, "m", b"", [request], Reason.FULL, 0))
    print(result.outputs[0].decode(), flush=True)
    await backend.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_nobody_waits_for_whoever_does_not_read_the_log(tmp_path: Path) -> None:
    """Its standard error is a pipe that is full: the function prints, is answered, and the server ends well."""
    said = f'"lines {MANY}"'
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, f"{FUNCTIONS}:flood", said],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            assert server.stdout.readline().strip() == said
            assert server.wait(60) == 0
        finally:
            server.kill()
