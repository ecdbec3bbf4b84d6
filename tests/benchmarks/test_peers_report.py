import json
from pathlib import Path

import pytest
from benchmarks.heads import REALISTIC, SAME
from benchmarks.machine import cpu_model, describe
from benchmarks.peers.report import ratio, table, write
from benchmarks.peers.roster import GRANIAN, LITSERVE, MOSEC, PENSTOCK, Peer
from benchmarks.peers.rounds import Standing
from benchmarks.wrk import Load, Measurement


def standing(peer: Peer, *answers: int) -> Standing:
    return Standing(peer, [Measurement(n, seconds=1.0, bad_status=2, socket_errors=1) for n in answers])


STANDINGS = [
    standing(MOSEC, 900, 1000, 4000),
    standing(PENSTOCK, 1500, 1600, 1700),
    standing(GRANIAN, 2000, 2000, 2000),
    Standing(LITSERVE, [], not_run="no such package"),
]


def rows() -> dict[str, list[str]]:
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table(STANDINGS, REALISTIC).splitlines()[2:]
    ]
    return {line[0]: line[1:] for line in lines}


def test_the_figure_is_the_median_of_the_rounds_with_its_range_beside_it() -> None:
    assert rows()["Mosec"][1:3] == ["1,000", "900–4,000"]


def test_ratios_are_to_the_limit_and_to_mosec_of_the_same_run() -> None:
    assert rows()["Penstock"][3:5] == ["0.80", "1.60"]


def test_errors_of_all_rounds_are_shown() -> None:
    assert rows()["bare Granian"][5] == "9"


def test_the_fastest_stands_first_and_what_was_not_run_last_with_its_reason() -> None:
    assert list(rows()) == ["bare Granian", "Penstock", "Mosec", "LitServe"]
    assert rows()["LitServe"] == ["not run: no such package", "–", "–", "–", "–", "–"]


def test_a_ratio_to_what_was_not_measured_is_a_dash() -> None:
    assert ratio(100.0, None) == "–"


def test_a_small_ratio_keeps_a_third_decimal() -> None:
    assert ratio(1.0, 200.0) == "0.005"


def test_a_peer_that_failed_in_a_later_round_has_no_figure() -> None:
    failed = standing(MOSEC, 1000)
    failed.not_run = "it died under the load"
    assert failed.rate is None


def test_the_page_the_chart_and_the_json_carry_the_same_run(tmp_path: Path) -> None:
    write(tmp_path, STANDINGS, SAME, Load(connections=64, seconds=1), describe(), "the command")
    page, chart = (tmp_path / "peers.md").read_text(), (tmp_path / "peers.svg").read_text()
    figures = json.loads((tmp_path / "peers.json").read_text())
    assert "64 connections" in page
    assert "64 connections" in chart
    assert [peer["requests_per_second"] for peer in figures["peers"]] == [1000, 1600, 2000, None]


@pytest.mark.parametrize("kind", [REALISTIC, SAME])
def test_the_page_and_the_chart_say_which_heads_were_sent(kind: str, tmp_path: Path) -> None:
    write(tmp_path, STANDINGS, kind, Load(), describe(), "the command")
    assert f"{kind} heads" in table(STANDINGS, kind)
    for name in ("peers.md", "peers.svg"):
        assert f"{kind} heads" in (tmp_path / name).read_text()
    assert json.loads((tmp_path / "peers.json").read_text())["heads"] == kind


def test_a_processor_without_a_name_is_known_by_its_architecture() -> None:
    assert cpu_model("model name\t: Fast One\n") == "Fast One"
    assert cpu_model("processor\t: 0\n")
