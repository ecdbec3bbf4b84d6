"""The WebSocket door is held against the native one, round by round."""

from benchmarks import websocket
from server import running


def turn(rate: float) -> websocket.Turn:
    return websocket.Turn(rate, 20.0, 0)


def test_each_turn_is_held_against_the_other_of_its_round() -> None:
    rounds = [
        websocket.Round(turn(10_000), turn(13_000)),
        websocket.Round(turn(20_000), turn(22_000)),
        websocket.Round(turn(40_000), turn(56_000)),
    ]
    (check,) = websocket.figure(rounds, 512, 8).checks
    assert (check.measured, check.holds) == (1.3, True)


def test_the_generator_asks_and_counts_answers() -> None:
    with running("sim:1ms") as server:
        measured = websocket.load(f"{server.url}/v1/stream", 2, 16, 1, "a text")
    assert measured.answers > 0
    assert measured.errors == 0
