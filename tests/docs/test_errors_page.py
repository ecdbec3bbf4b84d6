"""docs/errors.md has every code, with its status, and settings that exist."""

import re
from pathlib import Path

import pytest

from penstock.config import load
from penstock.errors import STATUS_BY_CODE, PenstockError, UserMistake

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([A-Z_]+)` \| (\d+) \| (.+) \| (.+) \| (.*)\|$", re.MULTILINE)


def every_kind(kind: type[PenstockError] = PenstockError) -> set[type[PenstockError]]:
    return {kind}.union(*(every_kind(each) for each in kind.__subclasses__()))


def test_the_page_has_every_code_with_its_status_and_no_other() -> None:
    rows = {code: int(status) for code, status, *_ in ROW.findall(PAGE)}
    assert rows == STATUS_BY_CODE


def test_every_error_there_is_has_a_status_of_its_code() -> None:
    kinds = {kind for kind in every_kind() if kind.__module__ == "penstock.errors"}
    kinds -= {UserMistake}  # which ends a command, and no request
    assert {kind.code: kind.status for kind in kinds} == STATUS_BY_CODE


@pytest.mark.parametrize("code", sorted(STATUS_BY_CODE))
def test_the_settings_it_names_exist(code: str) -> None:
    known = {setting.key for setting in load(None, {}, {"model.target": "sim:1ms"}).explain()}
    [settings] = [row[4] for row in ROW.findall(PAGE) if row[0] == code]
    for name in re.findall(r"`([a-z_]+\.[a-z_.]+)`", settings):
        assert name in known, name
    if "of a model" in settings:
        for name in re.findall(r"`([a-z_]+)`", settings):
            assert f"models.sim.{name}" in known, name
