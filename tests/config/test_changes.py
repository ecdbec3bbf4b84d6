"""What a running server takes over of a configuration that is read again."""

from pathlib import Path

import pytest

from penstock.config import Changes, Config, changes, load
from penstock.config.changes import CHANGEABLE
from penstock.config.schema import Key, NamedTables, Table, items
from penstock.errors import UserMistake

MODEL = "[models.m]\ntarget = 'sim:1ms'\nworkers = 2\n"


def configured(folder: Path, text: str) -> Config:
    file = folder / "penstock.toml"
    file.write_text(MODEL + text)
    return load(file, {}, {})


def changed(folder: Path, before: str, after: str) -> Changes:
    return changes(configured(folder, before), configured(folder, after))


def test_what_can_change_is_taken_and_the_rest_is_named(tmp_path: Path) -> None:
    found = changed(
        tmp_path,
        "[limits]\nmax_queue = 10\nmax_body = '1KB'\n",
        "policy = 'greedy'\n[limits]\nmax_queue = 20\nmax_body = '2KB'\n[server]\nadmin_token = 'secret'\n",
    )
    assert [(each.key, each.was, each.now) for each in found.taken] == [
        ("limits.max_queue", "10", "20"),
        ("models.m.policy", '"paced"', '"greedy"'),
    ]
    assert found.taken[0].source.endswith("penstock.toml:6")
    assert found.need_restart == ["server.admin_token", "limits.max_body"]
    assert (found.config.limits.max_queue, found.config.limits.max_body) == (20, 1000)
    assert found.config.server.admin_token == ""
    # What is in force came from where it was read first.
    assert found.config.source("limits.max_body").endswith(":6")
    assert found.config.source("server.admin_token") == "default"
    assert found.config.source("models.m.policy").endswith(":4")


def test_nothing_changes_if_nothing_has_changed(tmp_path: Path) -> None:
    found = changed(tmp_path, "", "")
    assert (found.taken, found.need_restart) == ([], [])
    assert found.config == configured(tmp_path, "")


PAID = "[tiers]\ndefault = 'paid'\n[tiers.levels.paid]\nrank = 0\nrequests_per_minute = 9\n"


def test_a_value_that_is_no_longer_set_is_its_default_again(tmp_path: Path) -> None:
    found = changed(tmp_path, f"{PAID}burst = 3\n", PAID)
    assert [(each.key, each.now) for each in found.taken] == [("tiers.levels.paid.burst", "")]
    assert found.taken[0].source == "default"


def test_tenants_come_and_go(tmp_path: Path) -> None:
    found = changed(
        tmp_path, "[tenants.a]\ntier = 'free'\n[tenants.b]\ntier = 'free'\n", "[tenants.c]\ntier = 'free'\n"
    )
    assert found.need_restart == []
    assert {each.key: (each.was, each.now) for each in found.taken} == {
        "tenants.a.tier": ('"free"', ""),
        "tenants.b.tier": ('"free"', ""),
        "tenants.c.tier": ("", '"free"'),
    }
    assert list(found.config.tenants) == ["c"]


def test_models_and_tiers_are_there_from_the_start(tmp_path: Path) -> None:
    found = changed(tmp_path, "", "[models.n]\ntarget = 'sim:1ms'\n")
    assert found.need_restart == ["models.n"]
    assert list(found.config.models) == ["m"]
    found = changed(tmp_path, "[models.n]\ntarget = 'sim:1ms'\npolicy = 'greedy'\n", "")
    assert found.need_restart == ["models.n"]
    assert found.config.source("models.n.policy").endswith(":6")
    gold = "[tiers.levels.gold]\nrank = 1\n[tenants.acme]\ntier = 'gold'\n"
    found = changed(tmp_path, PAID, PAID.replace("[tiers]", "[tiers]\norder = 'strict'") + gold)
    assert found.need_restart == ["tiers.order", "tiers.levels.gold", "tenants.acme"]
    assert not found.taken
    assert not found.config.tenants


def test_tiers_in_another_order_need_a_restart(tmp_path: Path) -> None:
    found = changed(
        tmp_path,
        "[tiers]\ndefault = 'a'\n[tiers.levels.a]\nrank = 1\n[tiers.levels.b]\nrank = 2\n",
        "[tiers]\ndefault = 'a'\n[tiers.levels.a]\nrank = 3\nweight = 3\n[tiers.levels.b]\nrank = 2\n",
    )
    assert found.need_restart == ["tiers.levels.a.rank", "tiers.levels.a.weight"]


def test_what_would_contradict_itself_is_refused(tmp_path: Path) -> None:
    """More workers need a restart, and without them so many cannot be kept for full batches."""
    before, after = configured(tmp_path, ""), configured(tmp_path, "reserve = 1\n")
    assert changes(before, after).config.models["m"].reserve == 1
    (tmp_path / "penstock.toml").write_text("[models.m]\ntarget = 'sim:1ms'\nworkers = 9\nreserve = 5\n")
    with pytest.raises(UserMistake, match="reserve"):
        changes(before, load(tmp_path / "penstock.toml", {}, {}))


def test_every_key_that_can_change_exists() -> None:
    known = dict(_sections(Config, ""))
    for section, keys in CHANGEABLE.items():
        assert set(keys) <= known[section], section


def _sections(section: type[object], name: str) -> list[tuple[str, set[str]]]:
    found, inside = [], set()
    for key, item in items(section).items():
        match item:
            case Key():
                inside.add(key)
            case Table(inner):
                found += _sections(inner, f"{name}.{key}".strip("."))
            case NamedTables(inner):
                found += _sections(inner, f"{name}.{key}.*".strip("."))
    return [(name, inside), *found]
