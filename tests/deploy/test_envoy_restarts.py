"""The real Envoy before two gateways over Redis: they are restarted, killed and overloaded."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from envoy_kit import Edge, envoy
from test_envoy import KEY, behind, token

from history import Ask, History, asks, poisson
from installation import Installation, installation
from open_loop import drive
from own_ports import free_port
from server import PATIENT, eventually
from token_kit import pem

RATE = 50.0  # a second
CLIENT = "client"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("site")
    key = folder / "key.pem"
    key.write_bytes(pem("RS256"))
    long = bool(request.config.getoption("--chaos-long"))
    # Patient, because deadlines are not what is tested: a machine that stalls for seconds changes no answer.
    config = behind({KEY: str(key)}) + PATIENT
    with installation(folder, batchers=1, workers=2, slots=1, delay=0.05, config=config, long=long) as found:
        for gateway in found.gateways:  # each comes back where it was, as it does on a machine of its own
            gateway.kill()
            gateway.command = [*gateway.command, "--port", str(free_port())]
            gateway.restart()
        found.wait_until_known()
        yield found


@pytest.fixture
def edge(site: Installation, tmp_path: Path) -> Iterator[Edge]:
    with envoy(tmp_path / "envoy", {"zone-a": [gateway.url for gateway in site.gateways]}) as found:
        yield found


def schedule(seconds: float, seed: int, *, timeout: float | None = None) -> list[Ask]:
    dues = poisson(RATE, seconds, Random(seed))
    return [replace(ask, client=CLIENT) for ask in asks(dues, timeout=timeout)]


async def loaded(edge: Edge, sent: Sequence[Ask], seed: int, fault: Callable[[], object]) -> History:
    """Send a schedule to Envoy while the fault takes its course."""
    happening = asyncio.create_task(asyncio.to_thread(fault))
    history = await drive(edge.url, sent, seed, keys={CLIENT: token()}, tls=edge.tls)
    await happening
    return history


@pytest.mark.timeout(300)
def test_a_rolling_restart_of_the_gateways_is_not_noticed_by_clients_that_never_retry(
    site: Installation, edge: Edge, chaos_long: bool, chaos_seed: int
) -> None:
    def restart() -> None:
        for gateway in site.gateways * 3 if chaos_long else site.gateways:
            assert gateway.stop() == 0
            gateway.restart()
            eventually(lambda: len(edge.healthy()) == 2)

    sent = schedule(50.0 if chaos_long else 12.0, chaos_seed)
    history = asyncio.run(loaded(edge, sent, chaos_seed, restart))
    site.check(history)
    assert history.failures() == [], history.endings()


def test_a_gateway_that_is_killed_costs_what_it_had_in_hand_and_nothing_is_run_twice_for_it(
    site: Installation, edge: Edge, chaos_seed: int
) -> None:
    victim = site.gateways[0]
    before = site.journal.executions()

    def kill() -> None:
        eventually(lambda: bool(site.at_work()))
        victim.kill()

    history = asyncio.run(loaded(edge, schedule(4.0, chaos_seed), chaos_seed, kill))
    victim.restart()
    site.wait_until_known()
    failed = history.failures()
    assert {(record.status, record.code) for record in failed} <= {(502, "BACKEND_FAILED")}, history.endings()
    # What came later found the other gateway.
    assert len(failed) < len(history.records) / 2
    run = [member for each in site.journal.executions()[len(before) :] for member in each.inputs]
    assert len(run) == len(set(run))
