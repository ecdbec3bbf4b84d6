"""What the live page costs is held against the server while nobody looks."""

from benchmarks import page


def test_only_what_the_page_adds_counts_as_its_cost() -> None:
    alone = page.Open(30.0, 0.7)
    open_ = page.Open(30.0, 2.2, 1.9, 0.5, 2.0, 0.2)
    paint, server, memory, objects = page.figure(alone, [page.Opened(900.0, 1200.0)], open_).checks
    assert (paint.measured, paint.holds) == (900.0, True)
    assert (round(server.measured or 0.0, 6), server.holds) == (1.5, True)
    assert (memory.measured, objects.measured) == (0.5, 0.2)
