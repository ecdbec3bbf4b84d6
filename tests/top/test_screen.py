"""The screen of `penstock top`: just as large as the terminal, whatever is shown."""

import sys
from dataclasses import replace
from pathlib import Path
from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "overview"))

from overview_kit import report, seen, standing, worker

from penstock.overview.counts import Counts
from penstock.overview.overview import Overview, ProcessLook
from penstock.top.keys import Looking, pressed
from penstock.top.lists import KINDS, Kind, rows_of
from penstock.top.screen import everything, in_order, screen
from penstock.top.words import fitted

LONG = "a-model-with-quite-a-long-name"
HOSTILE = "\x1b]0;owned\x07\x1b[2J line\nbreak\t模型が落ちた"


def busy() -> Overview:
    """Two models, one overloaded, many workers, one with an error that would steer a terminal."""
    refused = {"SERVICE_OVERLOADED": 900}
    counts = Counts({"SUCCESS": 900, "BACKEND_CRASHED": 3}, refused, {"free": 900}, {90_000: 900})
    own = tuple(worker(number) for number in range(40))
    others = worker(0, LONG), worker(1, LONG, "offline", HOSTILE)
    process = ProcessLook("serve", "gateway", "here", 0.1, told=True)
    return seen(
        report(counts, standing(100.0)),
        report(stands=standing(), model=LONG),
        workers=(*own, *others),
        processes=(process,),
    )


def columns(text: str) -> int:
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


@pytest.mark.parametrize("size", [(80, 24), (20, 6), (200, 60)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alone", [False, True])
def test_it_fills_the_terminal_and_no_more(size: tuple[int, int], kind: Kind, alone: bool) -> None:
    some = Looking(kind, alone=alone), Looking(kind, sort=3, reverse=True), Looking(kind, help=True)
    for looking in some:
        lines = screen(busy(), looking, *size)
        assert len(lines) == size[1]
        assert {columns(line.text) for line in lines} == {size[0]}
        assert all(line.text.isprintable() for line in lines)


def test_at_80_by_24_the_verdict_the_figures_and_the_models_are_seen() -> None:
    text = "\n".join(line.text for line in screen(busy(), Looking(), 80, 24))
    assert "embed: overloaded, 1.9 × capacity; free is refused." in text
    assert "served 90.0/s" in text
    assert "[models 2]" in text
    assert "> a-model-w" in text  # the first row is marked, and what is known of it stands below
    assert "policy     paced" in text
    assert "q leave" in text


def test_errors_of_strangers_cannot_steer_the_terminal() -> None:
    looking = Looking("workers", name=f"{LONG}/1", alone=True)
    for lines in (screen(busy(), looking, 80, 24), everything(busy(), 120)):
        assert all(line.text.isprintable() for line in lines)
    assert any("模型が落ちた" in line.text for line in screen(busy(), looking, 80, 24))


def test_why_it_is_not_the_newest_is_said_where_the_verdict_was() -> None:
    assert screen(busy(), Looking(), 80, 24, "No answer: gone")[1].text.startswith("No answer: gone")


@given(st.text(), st.integers(1, 30), st.booleans())
def test_a_text_takes_just_so_many_columns(text: str, width: int, right: bool) -> None:
    assert columns(fitted(text, width, right=right)) == width


def test_figures_are_sorted_from_the_greatest_on_and_names_from_a_on() -> None:
    rows = rows_of(busy(), "models")
    names = [[row.name for row in in_order(rows, Looking(sort=sort))] for sort in (0, 1)]
    assert names == [[LONG, "embed"], ["embed", LONG]]
    assert [row.name for row in in_order(rows, Looking(sort=1, reverse=True))] == names[0]


def test_what_the_keys_do() -> None:
    names, looking = ["a", "b", "c"], Looking()

    def press(looking: Looking, *keys: str) -> Looking:
        for key in keys:
            after = pressed(looking, key, names, 5)
            assert after is not None
            looking = after
        return looking

    assert press(looking, "w").kind == "workers"
    assert press(looking, "tab", "tab", "tab", "tab") == looking
    assert press(looking, "down", "j").name == "c"
    assert press(looking, "pagedown", "k").name == "b"
    assert press(looking, "up").name == "a"
    assert press(looking, "enter").alone
    assert press(looking, "enter", "escape") == looking
    assert press(looking, "s", "s").sort == 2
    assert press(looking, "s", "s", "s", "s", "s").sort == 0
    assert press(looking, "r").reverse
    assert press(looking, "space").paused
    assert press(looking, "?", "w") == looking  # any key leaves the help
    assert press(looking, "x") == looking
    assert pressed(looking, "q", names, 5) is None
    assert pressed(replace(looking, help=True), "ctrl-c", names, 5) is None
    assert pressed(looking, "enter", [], 5) == looking
