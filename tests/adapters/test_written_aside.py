"""The thread behind the request log and the recorder of arrivals: whatever it raises, it comes back."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from penstock.adapters import written_aside
from penstock.adapters.written_aside import WrittenAside


def test_an_error_in_the_thread_loses_the_lines_in_hand_and_no_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(written_aside, "CLOSE_SECONDS", 60.0)  # the thread may be late on a slow machine
    written: list[str] = []

    def write(lines: Sequence[str]) -> None:
        if "bad" in lines:
            raise ZeroDivisionError
        written.extend(lines)

    async def body() -> None:
        aside = WrittenAside[str]("the test's lines", write, lambda dropped: None, asyncio.get_running_loop())
        for line in ("bad", "good"):
            aside.add([line])
            await asyncio.sleep(0)  # each is handed over by itself
        await aside.close()
        assert (aside.written, aside.dropped) == (1, 1)

    with caplog.at_level(logging.ERROR):
        asyncio.run(body())
    assert written == ["good"]
    assert "the test's lines has ended and is started again" in caplog.text
