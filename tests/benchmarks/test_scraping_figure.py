"""What being scraped costs is held against the same server while nobody asks."""

from benchmarks.wrk import Load

from benchmarks import scraping
from server import eventually, running

LOAD = Load(512, 1, 5)


def side(every: float | None, *rates: float) -> scraping.Side:
    return scraping.Side("", every, [scraping.Turn(rate, 30.0, 0, 1) for rate in rates])


def test_each_turn_is_held_against_the_one_of_its_round_in_which_nobody_asked() -> None:
    sides = [
        side(None, 10_000, 20_000, 40_000),
        side(None, 11_000, 20_000, 40_000),
        side(5.0, 10_000, 19_900, 36_000),
        side(1.0, 9_500, 19_000, 40_000),
    ]
    seldom, often, page = scraping.figure(sides, scraping.Page(3e5, 0.003, 0.002), LOAD, 10).checks
    assert (seldom.measured, seldom.holds) == (0.995, True)
    assert (often.measured, often.holds) == (0.95, False)
    assert (page.measured, page.holds) == (0.04, True)  # 2 ms of 5 s


def test_a_scraper_asks_for_whole_pages_until_the_turn_ends() -> None:
    with running("sim:1ms") as server:
        with scraping.scraped(server.admin_url, 0.02) as sizes:
            eventually(lambda: len(sizes) >= 3)
        asked = len(sizes)
        with scraping.scraped(server.admin_url, None) as none:
            pass
        page = server.admin("/metrics", headers={"accept": scraping.ACCEPT})
    assert page.headers["content-type"].startswith("application/openmetrics-text")
    assert min(sizes) > len(page.body) / 2
    assert (len(sizes), none) == (asked, [])
