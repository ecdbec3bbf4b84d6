"""A mistake of ours in handling a message is in the log with its traceback, once, whatever was garbled before."""

import logging

import pytest
from town import Town

from penstock.testing import run_virtual
from penstock.types import TaskStatus
from penstock.words.messages import Message, Notice, encode

NOTICE = encode(Notice("/t", TaskStatus.SUCCESS))


def test_each_mistake_in_handling_messages_is_said_once_even_after_a_garbled_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def mistaken(message: Message) -> None:
        raise KeyError("nowhere")

    def otherwise(message: Message) -> None:
        raise KeyError("elsewhere")

    async def body() -> None:
        town = Town()
        gateway = await town.add_gateway()
        gateway._message(b"garbled")
        for handle in (mistaken, otherwise):
            monkeypatch.setattr(gateway, "received", handle)
            for _ in range(3):
                gateway._message(NOTICE)
        await town.stop()

    with caplog.at_level(logging.ERROR):
        run_virtual(body())
    said = [str(record.exc_info[1]) for record in caplog.records if record.exc_info and record.exc_info[1]]
    assert said == ["'nowhere'", "'elsewhere'"]
