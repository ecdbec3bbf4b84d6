"""The simulated GPU's time and faults, read from text."""

import pytest

from penstock.errors import UserMistake
from penstock.service_model import Fault, NewShapes, ServiceModel, parse_service


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("sim:100ms", ServiceModel(a=0.1)),
        ("100ms", ServiceModel(a=0.1)),
        ("sim:0ms", ServiceModel()),
        ("sim:0.1s,jitter=0.05", ServiceModel(a=0.1, jitter=0.05)),
        ("sim:a=250us, b=1µs", ServiceModel(a=250e-6, b=1e-6)),
        ("sim:a=10ms,knee=16,pad=powers", ServiceModel(a=0.01, b=0.01 / 16, knee=16, padded=True)),
        ("sim:32=100ms, 1=12ms,jitter=5%", ServiceModel(points=((1, 0.012), (32, 0.1)), jitter=0.05)),
        ("sim:5ms,length=0.5us", ServiceModel(a=0.005, length=0.5e-6)),
        ("sim:15ms,new_shape=80ms", ServiceModel(a=0.015, new_shape=0.08)),
        ("sim:a=50ms,b=0.5ms,jitter=5%,fail=1%", ServiceModel(a=0.05, b=0.0005, jitter=0.05, fail=0.01)),
        ("sim:4ms,knee=64,slow_factor=10,seed=7", ServiceModel(0.004, 0.0000625, 64, slow_factor=10, seed=7)),
        ("sim:1ms,hang=1%,crash=2%,garbage=3%,short=4%,poison=bad",
         ServiceModel(a=0.001, hang=0.01, crash=0.02, garbage=0.03, short=0.04, poison="bad")),
    ],
)  # fmt: skip
def test_a_service_is_read_from_text(text: str, model: ServiceModel) -> None:
    read = parse_service(text)
    numbers = ("a", "b", "length", "new_shape", "jitter", "slow_factor", *Fault)
    assert [getattr(read, n) for n in numbers] == pytest.approx([getattr(model, n) for n in numbers])
    assert (read.knee, read.poison, read.seed) == (model.knee, model.poison, model.seed)
    assert read.points == model.points


def test_a_measured_curve_is_level_straight_and_goes_on_as_it_came() -> None:
    curve = parse_service("sim:4=12ms,8=14ms,32=100ms,slow_factor=2")
    assert [curve.seconds(size) for size in (1, 4, 6, 8, 20, 32)] == pytest.approx(
        [0.024, 0.024, 0.026, 0.028, 0.114, 0.2]
    )
    assert curve.seconds(44) == pytest.approx(2 * (0.1 + 0.043))
    assert parse_service("8=14ms").seconds(100) == 0.014


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sim:", "a= is not a time such as 100ms"),
        ("sim:100", "a=100 is not a time: 100 has no unit: write 100ms or 100s"),
        ("sim:-1ms", "is not a time"),
        ("sim:nanms", "is not a time"),
        ("sim:infs", "is not a time"),
        ("sim:xms", "is not a time"),
        ("sim:1ms,pad=8", "pad=8 is not powers, the only padding there is"),
        ("sim:1ms,jitter=x", "jitter=x is not a share such as 5% or 0.05"),
        ("sim:1ms,fail=101%", "fail=101% is not a share"),
        ("sim:1ms,knee=0", "knee=0 is not a batch size"),
        ("sim:1ms,seed=x", "seed=x is not a whole number"),
        ("sim:1ms,poison=", "poison= is not a word"),
        ("sim:1ms,2ms", "a is given twice"),
        ("sim:8=1ms,8=2ms", "8 is given twice"),
        ("sim:8=1", "8=1 is not a time: 1 has no unit"),
        ("sim:0=1ms", "0=1ms is not a batch size"),
        ("sim:8=1ms,knee=4", "times by size say what a batch takes, and so does knee"),
        ("sim:1ms,fail=60%,hang=60%", "more than 100 %"),
    ],
)
def test_a_mistake_is_named(text: str, says: str) -> None:
    with pytest.raises(UserMistake) as caught:
        parse_service(text)
    assert says in caught.value.message


def test_an_unknown_setting_is_refused_by_name_with_the_known_ones() -> None:
    with pytest.raises(UserMistake, match="unknown setting 'jiter'; a simulated GPU has a, b, knee, jitter"):
        parse_service("sim:1ms,jiter=5%")


def test_time_grows_by_b_for_each_request() -> None:
    model = parse_service("sim:a=50ms,b=0.5ms")
    assert [model.seconds(n) for n in (1, 100)] == pytest.approx([0.0505, 0.1])


def test_time_is_flat_to_the_knee_and_then_in_proportion_to_the_batch() -> None:
    model = parse_service("sim:4ms,knee=64")
    assert [model.seconds(n) for n in (1, 64, 128, 256)] == pytest.approx([0.004, 0.004, 0.008, 0.016])


def test_a_rise_given_with_a_knee_counts_from_the_knee() -> None:
    model = parse_service("sim:4ms,b=1ms,knee=8")
    assert [model.seconds(n) for n in (8, 10)] == pytest.approx([0.004, 0.006])


def test_jitter_moves_time_by_its_share_for_each_standard_deviation_and_never_below_zero() -> None:
    model = parse_service("sim:100ms,jitter=10%,slow_factor=2")
    assert [model.seconds(1, z) for z in (-1.0, 0.0, 2.0, -11.0)] == pytest.approx([0.18, 0.2, 0.24, 0.0])


def test_each_fault_takes_its_share_of_the_draws() -> None:
    model = parse_service("sim:1ms,fail=10%,hang=20%,short=30%")
    drawn = [model.fault(u / 100) for u in range(100)]
    counts = [drawn.count(fault) for fault in (Fault.FAIL, Fault.HANG, Fault.CRASH, Fault.SHORT, None)]
    assert counts == pytest.approx([10, 20, 0, 30, 40], abs=1)


def test_a_padded_model_takes_as_long_as_for_the_next_power_of_two() -> None:
    model = parse_service("sim:a=10ms,knee=16,pad=powers")
    assert [model.seconds(size) for size in (1, 16, 17, 32, 33)] == pytest.approx(
        [0.01, 0.01, 0.02, 0.02, 0.04]
    )


def test_the_first_batch_of_each_size_that_is_run_takes_longer() -> None:
    new = NewShapes(parse_service("sim:15ms,new_shape=80ms"))
    assert [new.seconds(size) for size in (1, 3, 1, 3, 4)] == [0.08, 0.08, 0.0, 0.0, 0.08]
    padded = NewShapes(parse_service("sim:15ms,new_shape=80ms,pad=powers"))
    assert [padded.seconds(size) for size in (3, 4, 5, 8)] == [0.08, 0.0, 0.08, 0.0]


def test_a_batch_takes_at_least_as_long_as_its_rows_times_the_longest_input() -> None:
    model = parse_service("sim:5ms,length=0.5us")
    assert [model.seconds(8, 0.0, longest) for longest in (10, 1250, 5000)] == pytest.approx(
        [0.005, 0.005, 0.02]
    )
    padded = parse_service("sim:5ms,length=0.5us,pad=powers")
    assert padded.seconds(5, 0.0, 5000) == pytest.approx(0.02)
