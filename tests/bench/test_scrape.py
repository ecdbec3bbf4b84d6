"""What the server's own counters say about the measured window."""

import json
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tiny_server import Answer, Ask, TinyServer

from penstock.bench.scrape import Scrape, compare, scrape


def metrics(full: int, due: int, members: int, busy: float, model: str = "m") -> str:
    return (
        "# TYPE penstock_batches counter\n"
        f'penstock_batches_total{{model="{model}",reason="full"}} {full}\n'
        f'penstock_batches_total{{model="{model}",reason="due"}} {due}.0\n'
        f'penstock_batched_requests_total{{model="{model}"}} {members}\n'
        f'penstock_worker_busy_seconds_total{{model="{model}"}} {busy}\n'
        f'penstock_workers{{model="{model}",state="busy"}} 3\n'
        f'penstock_workers{{model="{model}",state="idle"}} 1\n'
        "penstock_queue_depth 7\n"
    )


def part(text: str, *, of_worker: bool) -> str:
    """The lines that a worker's page has, or those of a batcher's."""
    return "".join(
        line for line in text.splitlines(keepends=True) if ("penstock_worker" in line) == of_worker
    )


def always(text: str) -> Callable[[Ask], Answer]:
    return lambda ask: Answer(body=text.encode())


def page(taken: float, text: str) -> Scrape:
    return Scrape(taken, {"http://server": text})


def test_the_window_is_the_difference_of_two_scrapes() -> None:
    window = compare(page(100.0, metrics(1, 1, 10, 5.0)), page(110.0, metrics(1, 5, 50, 25.0)), None)
    assert window is not None
    assert (window.batch.count, window.batch.mean_size, window.batch.reasons) == (4, 10, {"due": 4})
    assert window.busy == pytest.approx(20 / (4 * 10))


def test_padding_is_a_share_of_all_that_was_run() -> None:
    before, after = (f'penstock_padding_total{{model="m"}} {padding}\n' for padding in (4, 14))
    window = compare(
        page(0.0, metrics(1, 1, 10, 5.0) + before), page(1.0, metrics(1, 5, 50, 25.0) + after), "m"
    )
    assert window is not None
    assert window.batch.padded_share == 0.2


def test_only_the_model_that_was_asked_counts() -> None:
    before = page(0.0, metrics(0, 0, 0, 0.0) + metrics(0, 0, 0, 0.0, "other"))
    after = page(1.0, metrics(1, 0, 8, 0.0) + metrics(9, 9, 99, 9.0, "other"))
    window = compare(before, after, "m")
    assert window is not None
    assert (window.batch.count, window.batch.mean_size) == (1, 8)


def test_a_counter_that_first_appears_during_the_run_counts_from_zero() -> None:
    window = compare(page(0.0, ""), page(1.0, metrics(2, 0, 8, 0.5)), None)
    assert window is not None
    assert window.batch.count == 2


def test_without_both_scrapes_or_without_counters_there_is_no_window() -> None:
    assert compare(None, page(1.0, metrics(1, 1, 2, 1.0)), None) is None
    assert compare(page(0.0, metrics(1, 1, 2, 1.0)), None, None) is None
    assert compare(page(0.0, "up 1\n"), page(1.0, "up 1\n"), None) is None


def test_a_scrape_reads_the_metrics_page() -> None:
    with TinyServer(lambda ask: Answer(body=b"up 1\n")) as server:
        found = scrape(server.url + "/")
    assert found is not None
    assert found.pages == {server.url: "up 1\n"}
    assert [ask.path for ask in server.asks] == ["/internal/health", "/metrics"]


def test_over_redis_the_batchers_and_workers_are_asked_each_for_what_it_knows() -> None:
    """What a gateway knows of the others; one of them has just ended."""
    pages = [
        part(metrics(1, 1, 10, 0.0), of_worker=False),
        part(metrics(2, 0, 30, 0.0), of_worker=False),
        part(metrics(0, 0, 0, 5.0), of_worker=True),
        part(metrics(0, 0, 0, 7.0), of_worker=True),
    ]
    with ExitStack() as stack:
        urls = [stack.enter_context(TinyServer(always(page))).url for page in pages]
        admins = [("gateway", "http://127.0.0.1:1"), ("batcher", urls[0]), ("batcher", urls[1])]
        admins += [("worker", urls[2]), ("worker", urls[3])]
        admins += [("batcher", "http://127.0.0.1:1"), ("batcher", "")]
        processes = [{"role": role, "admin": admin} for role, admin in admins]
        with TinyServer(lambda ask: Answer(body=json.dumps({"processes": processes}).encode())) as gateway:
            found = scrape(gateway.url)
    assert found is not None
    window = compare(Scrape(found.taken - 10.0, {}), found, None)
    assert window is not None
    assert (window.batch.count, window.batch.mean_size) == (4, 10)
    assert window.busy == pytest.approx(12 / (8 * 10))


def test_a_batcher_that_was_started_anew_counts_from_zero() -> None:
    window = compare(page(0.0, metrics(9, 9, 99, 9.0)), page(1.0, metrics(2, 0, 8, 0.5)), None)
    assert window is not None
    assert (window.batch.count, window.batch.mean_size) == (2, 4)


def test_an_admin_plane_that_is_not_there_gives_nothing() -> None:
    assert scrape("http://127.0.0.1:1") is None
    with TinyServer(lambda ask: Answer(404)) as server:
        assert scrape(server.url) is None
