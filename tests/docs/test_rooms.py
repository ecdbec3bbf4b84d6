"""Each room of the source has its rules: a row in the table of the architecture, and a contract for `lint-imports`.
A new package without them fails here."""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
ROOMS = sorted(file.parent.name for file in SOURCE.glob("*/__init__.py"))
ADAPTERS = sorted(file.parent.name for file in (SOURCE / "adapters").glob("*/__init__.py"))
FILES = sorted(file.stem for file in SOURCE.glob("*.py") if not file.stem.startswith("__"))
HELPERS = sorted(file.stem for file in (SOURCE / "adapters").glob("*.py") if file.stem != "__init__")

CONTRACT = "importlinter:contract:"
_ROW = re.compile(r"\| (.*?) \| (.*) \| (.*) \|")
_NAME = re.compile(r"`([a-z_]+)(?:/\*?)?`")


def table() -> list[tuple[str, str, str]]:
    """Rooms, what they do, and what they may import."""
    return _ROW.findall((ROOT / "docs" / "architecture.md").read_text().split("## Over a bus")[0])


def row_of(room: str) -> str:
    """What a room may import, in the words of its row."""
    [found] = [last for first, _, last in table() if room in _NAME.findall(first) and "files" not in first]
    return found


def named_in(beginning: str) -> set[str]:
    """The names in the row that begins with these words."""
    [row] = [" ".join(each) for each in table() if each[0].startswith(beginning)]
    return set(_NAME.findall(row))


def rules() -> ConfigParser:
    found = ConfigParser()
    found.read(ROOT / ".importlinter")
    return found


def modules(contract: str, key: str) -> set[str]:
    return {name.removeprefix("penstock.") for name in rules()[contract].get(key, "").split()}


def forbidden_to(room: str) -> set[str]:
    return {
        name
        for contract in rules().sections()
        if room in modules(contract, "source_modules")
        for name in modules(contract, "forbidden_modules")
    }


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "roles"])
def test_a_room_may_import_what_its_row_names_and_all_else_is_forbidden(room: str) -> None:
    row = row_of(room)
    named = {*_NAME.findall(row), *(["adapters"] if "adapters" in row else [])}
    assert set(ROOMS) - {room} - named <= forbidden_to(room)


def test_a_role_may_import_all_but_what_its_row_names() -> None:
    row = row_of("roles")
    assert row.startswith("every room but")
    assert set(_NAME.findall(row)) == forbidden_to("roles") & set(ROOMS)


@pytest.mark.parametrize("file", FILES)
def test_a_file_outside_the_rooms_is_in_the_table_and_knows_no_room_but_contracts(file: str) -> None:
    assert file in named_in("`types`") | named_in("the other files directly in `penstock/`")
    assert set(ROOMS) - {"ports", "words"} <= forbidden_to(file)


def test_adapters_know_no_other_and_their_helpers_know_none() -> None:
    adapters, helpers = ({f"adapters.{name}" for name in names} for names in (ADAPTERS, HELPERS))
    assert set(ADAPTERS) <= named_in("`adapters/*`")
    assert set(HELPERS) <= named_in("the files directly in `adapters/`")
    assert adapters == modules(f"{CONTRACT}adapters-are-strangers", "modules")
    assert helpers == modules(f"{CONTRACT}helpers-of-adapters", "source_modules")
    assert adapters <= modules(f"{CONTRACT}helpers-of-adapters", "forbidden_modules")
