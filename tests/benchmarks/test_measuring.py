"""The benchmarks' machinery on real servers and processes, as briefly as it goes."""

import resource

import psutil
import pytest
from benchmarks.generator import Traffic, bench
from benchmarks.serving import DidNotServe, announced, serving

from benchmarks import waiting
from penstock.errors import UserMistake


def test_a_server_is_measured_and_gone_afterwards() -> None:
    with serving("sim:1ms", "--workers", "2") as server:
        # Seconds, so that batches are counted also where the machine stands still for one of them.
        measured = bench(server.url, server.admin, Traffic(rate=50, seconds=3.0, warmup=0.1))
    assert measured.ok == measured.sent > 0
    assert measured.batch is not None
    assert not psutil.pid_exists(server.pid)


def test_settings_reach_the_server_and_those_of_this_shell_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_NO_SUCH_SETTING", "1")
    with serving("sim:1ms", settings={"PENSTOCK_LIMITS_MAX_QUEUE": "7"}) as server:
        assert server.url != server.admin


def test_a_server_that_does_not_start_is_told_of_in_its_own_words() -> None:
    with pytest.raises(DidNotServe, match=r"did not start: penstock: .*soon"), serving("sim:soon"):
        pass


def test_a_load_that_cannot_be_sent_is_told_of() -> None:
    with pytest.raises(RuntimeError, match="cannot reach"):
        bench("http://127.0.0.1:1", None, Traffic(rate=50, seconds=0.5))


def test_both_addresses_are_read_from_the_banner_and_other_lines_are_passed_over() -> None:
    banner = (
        "  serving  http://127.0.0.1:1234/v1/inference    docs http://127.0.0.1:1234/docs    "
        "admin http://127.0.0.1:5678/internal/health"
    )
    assert announced(banner) == ("http://127.0.0.1:1234", "http://127.0.0.1:5678")
    assert announced("  sim: sim:1ms, 1 worker, up to 64 a batch, paced") is None


def test_waiting_requests_are_counted_and_need_no_timer_each() -> None:
    figure = waiting.measure(waiting.arguments(["--requests", "200"]), lambda _: None)
    assert figure.data["grown"]["Task"] <= 202
    assert figure.data["grown"]["TimerHandle"] < 20
    assert figure.data["memory"]["waiting"] > 0


def test_too_few_open_files_are_told_of_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 1000))
    with pytest.raises(UserMistake, match="10,256 open files are needed and 1,000 allowed"):
        waiting.measure(waiting.arguments([]), lambda _: None)
