import re
from xml.etree import ElementTree

from benchmarks.chart import Bar, bar_chart
from benchmarks.table import markdown_table

BARS = [
    Bar("fast", 400.0, "400", "ours"),
    Bar("slow", 100.0, "100"),
    Bar("absent", None, "not run: no wheel"),
]


def test_bars_are_as_long_as_their_values_compare() -> None:
    fast, slow = (
        float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', bar_chart("t", "s", BARS))
    )
    assert fast == 4 * slow


def test_what_has_no_figure_has_a_reason_and_no_bar() -> None:
    drawing = bar_chart("t", "s", BARS)
    assert drawing.count("<rect") == 2
    assert "not run: no wheel" in drawing


def test_a_chart_is_well_formed_whatever_the_words() -> None:
    drawing = bar_chart('a "title" & <more>', "<", [Bar("<&>", 1.0, '"')])
    assert ElementTree.fromstring(drawing).attrib["aria-label"] == 'a "title" & <more>'


def test_a_chart_of_nothing_measured_can_be_drawn() -> None:
    assert "<rect" not in bar_chart("t", "s", [Bar("absent", None, "not run")])


def test_a_chart_has_colours_for_dark_pages() -> None:
    assert "prefers-color-scheme: dark" in bar_chart("t", "s", BARS)


def test_a_table_lines_words_up_left_and_figures_right() -> None:
    assert markdown_table(["server", "rate"], [["a", "1,000"], ["b", "20"]]) == (
        "| server |  rate |\n"
        "|--------|------:|\n"
        "| a      | 1,000 |\n"
        "| b      |    20 |\n"
    )  # fmt: skip


def test_a_bar_or_a_line_break_in_a_cell_does_not_break_the_table() -> None:
    assert markdown_table(["word"], [["a|b\nc"]]).splitlines()[2] == "| a\\|b c |"
