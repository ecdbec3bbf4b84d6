"""What the figure of the autoscaler says of traffic that is made up."""

from benchmarks.autoscaling import MADE_UP, day, figure, jumps, ways


def test_the_same_seed_makes_the_same_traffic() -> None:
    assert jumps(levels=2).times == jumps(levels=2).times
    assert jumps(levels=2).measured == 1200.0


def test_the_rules_and_two_fixed_numbers_are_compared_and_promised() -> None:
    found = {"a short day": ways(day(rate=4.0, span=1800.0), MADE_UP)}
    names = list(found["a short day"])
    assert names[:3] == ["predicted", "classic", "fixed 8"]
    predicted, fewest = found["a short day"]["predicted"], found["a short day"][names[-1]]
    assert fewest.missed <= predicted.missed
    assert fewest.hours < found["a short day"]["fixed 8"].hours
    made = figure(found)
    assert [check.holds for check in made.checks] == [True, True]
    assert "Left out: Azure code" in " ".join(made.notes)
    assert made.data["a short day"]["predicted"]["workers"]["hours"] == round(predicted.hours, 4)
