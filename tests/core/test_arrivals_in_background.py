"""What runs in the background is no demand: no policy waits for more of it, and none plans for it."""

from core_kit import ask, batcher_with, offer


def test_a_request_in_the_background_waits_as_others_do_and_does_not_count_as_an_arrival() -> None:
    batcher = batcher_with(0)
    background = ask()
    background.background = True
    offer(batcher, background)
    [lane] = batcher.lanes.values()
    assert lane.buffer.waiting == 1
    assert lane.meter.rate(0.1) == 0.0
    offer(batcher, ask())
    assert lane.buffer.waiting == 2
    assert lane.meter.rate(0.1) > 0.0
