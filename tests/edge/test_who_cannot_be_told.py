"""While the identity provider is away nobody can be told who asks: what is refused is refused all the same."""

import asyncio
import time
from collections.abc import Mapping

import pytest
from http2_kit import Line

from edge_kit import Client, get, settle
from penstock.config import load
from penstock.edge.edge import Edge
from penstock.errors import StoreDown
from penstock.roles.data_plane import data_plane
from penstock.roles.embedded import embedded
from penstock.runtime.embedded_server import EmbeddedServer
from penstock.types import Identity


class Unknowing:
    """A doorman whose identity provider has not given any key yet."""

    def recall(self, authorization: bytes) -> Identity | None:
        return None

    def identify(self, headers: Mapping[bytes, bytes]) -> Identity:
        raise StoreDown("tokens cannot be checked: the identity provider has not given its keys yet")

    async def identify_slowly(self, headers: Mapping[bytes, bytes]) -> Identity:
        return self.identify(headers)


def edge_without_keys() -> Edge:
    config, loop = load(None, {}, {"model.target": "sim:0ms"}), asyncio.get_running_loop()
    inside = embedded(config, loop).inside
    assert isinstance(inside, EmbeddedServer)
    return data_plane(inside.gateway, config, loop, time.monotonic, Unknowing())


@pytest.mark.parametrize("size", [2**21, 2**40])
def test_a_length_that_is_too_large_is_413(size: int) -> None:
    async def body() -> None:
        client = Client(edge_without_keys())
        client.send(get("/v1/inference", f"content-length: {size}", method="POST"))
        assert client.heard().statuses == [413]

    asyncio.run(body())


def test_over_http_2_it_costs_nobody_else_the_connection() -> None:
    async def body() -> None:
        line = Line(edge_without_keys())
        number = line.ask(
            "POST", "/v1/inference", b"", headers=(("content-length", str(2**40)),), whole=False
        )
        assert line.answer(number).status == 413
        number = line.get("/nowhere")
        await settle()
        assert line.answer(number).status == 404
        assert not line.closed

    asyncio.run(body())
