"""No more connections are let in than the process may open, and some are kept for others."""

import asyncio
import logging
import resource

import pytest

from penstock.config import Config, Server, load
from penstock.roles.embedded import embedded
from penstock.server.descriptors import SPARE, connections_allowed


def limited(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))


def test_what_fits_is_allowed_and_what_does_not_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(server=Server(max_connections=5000))
    logging.getLogger("penstock").propagate = True
    with caplog.at_level(logging.INFO, "penstock"):
        limited(monkeypatch, resource.RLIM_INFINITY)
        assert connections_allowed(config) == 5000
        limited(monkeypatch, 5000 + SPARE)
        assert connections_allowed(config) == 5000
        assert not caplog.records
        limited(monkeypatch, 4000)
        assert connections_allowed(config) == 4000 - SPARE
        limited(monkeypatch, 100)
        assert connections_allowed(config) == 50
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "server.max_connections" in caplog.text


def test_both_ports_share_one_room_and_what_does_not_fit_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"model.target": "sim:0ms", "server.grpc_port": "0", "server.max_connections": "5000"}
    limited(monkeypatch, 4000)
    logging.getLogger("penstock").propagate = True

    async def body() -> None:
        with caplog.at_level(logging.WARNING, "penstock"):
            process = embedded(load(None, {}, settings), asyncio.get_running_loop())
        http, grpc = process.edge, process.grpc
        assert http is not None
        assert grpc is not None
        assert (http.held, http.unsent, http.limits) == (grpc.held, grpc.unsent, grpc.limits)
        assert http.lobby is grpc.lobby
        assert (http.turns, http.sending, http.hellos) == (grpc.turns, grpc.sending, grpc.hellos)
        assert http.app._large is grpc.app._large  # type: ignore[attr-defined]
        http.close()
        grpc.close()

    asyncio.run(body())
    assert caplog.text.count("server.max_connections") == 1
