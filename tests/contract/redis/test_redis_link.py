"""How long Redis may be silent before it counts as away."""

from penstock.adapters.redis.link.hearing import SILENCE, Link


class Line:
    """A link whose round trips take what the test says."""

    def __init__(self, most: float = 1.0) -> None:
        self.now = 0.0
        self.link = Link(most, lambda: self.now)

    def round_trip(self, seconds: float, times: int = 1) -> None:
        for _ in range(times):
            asked = self.now
            self.now += seconds
            self.link.answered(asked)


def test_until_the_first_answer_a_command_has_all_its_time() -> None:
    assert Line(most=1.0).link.patience == 1.0


def test_a_quick_redis_is_missed_within_eighty_milliseconds() -> None:
    line = Line()
    line.round_trip(0.001, times=20)
    assert line.link.patience == SILENCE == 0.08


def test_a_distant_redis_is_given_the_time_it_usually_takes_and_no_command_more_than_its_limit() -> None:
    line = Line()
    for _ in range(50):
        line.round_trip(0.3)
        line.round_trip(0.5)
    assert 0.5 < line.link.patience <= 1.0
    line.round_trip(0.9, times=5)
    assert line.link.patience == 1.0


def test_one_slow_answer_among_many_quick_ones_is_soon_forgotten() -> None:
    line = Line()
    line.round_trip(0.001, times=20)
    line.round_trip(0.5)
    assert line.link.patience > 0.5
    line.round_trip(0.001, times=40)
    assert line.link.patience == SILENCE


def test_anything_that_comes_from_redis_is_heard() -> None:
    line = Line()
    line.now = 7.0
    line.link.heard()
    assert line.link.heard_at == 7.0
