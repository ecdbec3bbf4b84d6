"""An installation for measurements, with real processes, as briefly as it goes."""

import psutil
import pytest
from benchmarks.closed_loop import measure
from benchmarks.echo import BODY, TARGET
from benchmarks.generator import Traffic
from benchmarks.installation import Layout, installation
from benchmarks.open_loop import offer
from benchmarks.processor import used
from benchmarks.serving import DidNotServe
from benchmarks.valkey import ValkeyCluster
from benchmarks.wrk import Load


def test_an_installation_is_measured_and_gone_afterwards() -> None:
    with installation(Layout(TARGET, gateways=2, batchers=2)) as running:
        admins = [batcher.admin for batcher in running.batchers]
        # Seconds, so that something is asked and counted also where the machine stands still for one of them.
        opened = offer(running.urls, Traffic(rate=100, seconds=4.0, warmup=0.2), 2, admins)
        closed = measure(f"{running.urls[0]}/v1/inference", BODY, Load(connections=4, seconds=3))
        commands, processes = running.valkey.commands(), running.processes
        seconds = used(processes)
    # Where the machine stands still, Redis may be silent for longer than a gateway waits.
    assert opened.ok + opened.codes.get("STORE_UNAVAILABLE", 0) == opened.sent
    assert opened.ok > 0
    assert opened.batch is not None
    assert closed.answers > 0
    assert closed.errors == 0
    assert commands["xadd"] > 0
    names = {"Valkey", "gateway 1", "gateway 2", "batcher 1", "batcher 2", "worker", "worker, its function"}
    assert seconds.keys() == names
    assert not any(psutil.pid_exists(pid) for pid in processes.values())


def test_an_installation_may_have_a_cluster_whose_primaries_all_have_some_of_the_work() -> None:
    with installation(Layout(TARGET, primaries=3)) as running:
        closed = measure(f"{running.urls[0]}/v1/inference", BODY, Load(connections=8, seconds=1))
        names = set(running.processes)
        assert isinstance(running.valkey, ValkeyCluster)
        assert all(each.commands()["xadd"] > 0 for each in running.valkey.primaries)
        assert running.valkey.commands()["xadd"] >= closed.answers / 64
    assert closed.answers > 0
    assert closed.errors == 0
    assert names == {"Valkey 1", "Valkey 2", "Valkey 3", "gateway", "batcher", "worker"}


def test_an_installation_that_does_not_start_is_told_of_in_its_own_words() -> None:
    with (
        pytest.raises(DidNotServe, match=r"did not start: penstock: .*soon"),
        installation(Layout("sim:soon")),
    ):
        pass


def test_a_generator_that_cannot_send_is_told_of() -> None:
    with pytest.raises(RuntimeError, match="cannot reach"):
        offer(["http://127.0.0.1:1"], Traffic(rate=50, seconds=0.5), 1, [])
