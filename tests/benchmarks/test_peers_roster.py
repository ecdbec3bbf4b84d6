import json
from pathlib import Path

import pytest
from benchmarks.echo import TEXT
from benchmarks.peers.__main__ import arguments, measured
from benchmarks.peers.environment import REQUIREMENTS
from benchmarks.peers.roster import ROSTER, Peer, behind_keys

from penstock.errors import UserMistake


@pytest.mark.parametrize("peer", ROSTER, ids=lambda peer: peer.name)
def test_every_peer_is_sent_the_same_two_kilobytes(peer: Peer) -> None:
    assert len(TEXT) == 2048
    assert TEXT in json.dumps(json.loads(peer.payload()))
    assert len(peer.payload()) < 2048 + 100


@pytest.mark.parametrize("peer", ROSTER, ids=lambda peer: peer.name)
def test_every_package_of_a_rival_is_pinned(peer: Peer) -> None:
    if peer.requirements is not None:
        lines = (REQUIREMENTS / f"{peer.requirements}.txt").read_text().splitlines()
        assert all("==" in line for line in lines if not line.startswith("#"))


def test_all_peers_are_measured_unless_some_are_named() -> None:
    assert measured("") == list(ROSTER)
    assert [peer.name for peer in measured("mosec, granian")] == ["mosec", "granian"]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UserMistake, match=r"unknown peer 'moses': choose from penstock, granian, mosec"):
        measured("moses")


def test_nothing_is_measured_less_than_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--rounds", "0"])
    assert "must be at least 1" in capsys.readouterr().err


def test_realistic_heads_are_the_main_figure() -> None:
    assert arguments([]).heads == "realistic"
    assert arguments(["--heads", "same"]).heads == "same"


def test_behind_keys_stands_next_to_the_same_without() -> None:
    names = [peer.name for peer in measured("granian, penstock, mosec", keys=True)]
    assert names == ["granian", "penstock", "penstock-keys", "mosec"]


def test_a_server_behind_keys_finds_its_settings_and_every_key_in_its_folder(tmp_path: Path) -> None:
    peer = behind_keys()
    peer.furnish(tmp_path)
    kept = json.loads((tmp_path / "keys.json").read_text())["keys"]
    assert 'mode = "keys"' in (tmp_path / "penstock.toml").read_text()
    assert len({key["tenant"] for key in kept}) == len(set(peer.credentials)) == 1000
