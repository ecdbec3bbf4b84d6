import pytest

from penstock.adapters.redis.bus.offsets import Offsets


def test_what_a_message_waited_shows_against_the_quickest_one() -> None:
    offsets = Offsets()
    assert offsets.transit("g", sent=1000.0, received=5.0) == 0.0
    assert offsets.transit("g", sent=1001.0, received=6.3) == pytest.approx(0.3)


def test_a_quicker_message_sets_the_mark_for_those_after_it() -> None:
    offsets = Offsets()
    offsets.transit("g", 0.0, 0.5)
    assert offsets.transit("g", 1.0, 1.1) == 0.0
    assert offsets.transit("g", 2.0, 2.5) == pytest.approx(0.4)


def test_each_sender_has_a_clock_of_its_own() -> None:
    offsets = Offsets()
    offsets.transit("a", 0.0, 100.0)
    assert offsets.transit("b", 7_000_000.0, 100.0) == 0.0
    assert offsets.transit("a", 1.0, 101.2) == pytest.approx(0.2)


def test_a_gateway_that_starts_anew_under_a_new_name_waits_for_nothing() -> None:
    offsets = Offsets()
    offsets.transit("gateway-1", 90_000.0, 10.0)
    assert offsets.transit("gateway-2", 3.0, 11.0) == 0.0


def test_drift_never_adds_up_to_a_wait() -> None:
    offsets = Offsets(span=10.0)
    worst = 0.0
    for second in range(100_000):
        sent = second * (1 - 1e-4)  # a bad crystal: 10 s behind at the end
        worst = max(worst, offsets.transit("g", sent, float(second)))
    assert worst < 0.0025


def test_a_sender_whose_machine_slept_is_believed_again_within_two_spans() -> None:
    offsets = Offsets(span=10.0)
    for second in range(15):
        offsets.transit("g", float(second), float(second))
    later = [offsets.transit("g", second - 100.0, float(second)) for second in range(115, 140)]
    assert later[0] == 0.0  # longer silent than two spans
    awake = Offsets(span=10.0)
    for second in range(15):
        awake.transit("g", float(second), float(second))
    waits = [awake.transit("g", second - 3.0, float(second)) for second in range(15, 40)]
    assert waits[0] == pytest.approx(3.0)
    assert waits[-1] == 0.0


def test_a_stall_of_some_seconds_is_seen_in_full() -> None:
    offsets = Offsets(span=10.0)
    for second in range(9):
        offsets.transit("g", float(second), float(second))
    assert offsets.transit("g", 9.0, 14.0) == pytest.approx(5.0)


def test_senders_that_went_silent_are_forgotten() -> None:
    offsets = Offsets(span=1.0)
    for number in range(1000):
        offsets.transit(f"g{number}", 0.0, float(number))
    assert len(offsets) < 10
