"""docs/configuration.md says what the sections say."""

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from penstock.config import (
    Api,
    Auth,
    Autoscaler,
    Doors,
    GrpcEndpoint,
    HttpEndpoint,
    Idempotency,
    Jwt,
    Ledger,
    Level,
    Limits,
    Model,
    Redis,
    Retries,
    Server,
    Tenant,
    Tiers,
    Timeouts,
    Tls,
    Trace,
    Tracing,
    load,
)
from penstock.config.changes import CHANGEABLE
from penstock.config.schema import Key, items

DOC = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
SECTIONS = {
    "[server]": Server,
    "[api]": Api,
    "[doors]": Doors,
    "[tls]": Tls,
    "[redis]": Redis,
    "[auth]": Auth,
    "[auth.jwt]": Jwt,
    "[ledger]": Ledger,
    "[tracing]": Tracing,
    "[trace]": Trace,
    "[autoscaler]": Autoscaler,
    "[limits]": Limits,
    "[idempotency]": Idempotency,
    "[timeouts]": Timeouts,
    "[retries]": Retries,
    "[tiers]": Tiers,
    "[tiers.levels.NAME]": Level,
    "[tenants.NAME]": Tenant,
    "[models.NAME]": Model,
    "[models.NAME.http]": HttpEndpoint,
    "[models.NAME.grpc]": GrpcEndpoint,
}


def test_what_can_change_while_it_runs_is_documented() -> None:
    _, _, rest = DOC.partition("# Changes while it runs\n")
    rows = re.findall(
        r"^\| `([a-z.*]+)` \| (`.+`) \|$", re.split(r"^## ", rest, flags=re.MULTILINE)[0], flags=re.MULTILINE
    )
    assert {section: tuple(re.findall(r"`(\w+)`", keys)) for section, keys in rows} == CHANGEABLE


def documented(heading: str) -> dict[str, str]:
    """The keys of one section of the page, each with the default it is said to have."""
    _, _, rest = DOC.partition(f"# `{heading}`\n")
    section = re.split(r"^#", rest, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", section, flags=re.MULTILINE))


def default_of(item: Field[Any], key: Key) -> str:
    if item.default_factory is not MISSING:
        return f"`{key.kind.write(item.default_factory())}`"
    if item.default is MISSING:
        return "required"
    return "not set" if item.default is None else f"`{key.kind.write(item.default)}`"


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_key_is_documented_with_its_default(heading: str) -> None:
    section = SECTIONS[heading]
    keys = items(section)
    expected = {
        item.name: default_of(item, key)
        for item in fields(section)
        if isinstance(key := keys[item.name], Key)
    }
    assert documented(heading) == expected


def test_the_usual_tiers_are_documented() -> None:
    for name, level in Tiers().levels.items():
        assert f"`{name}` (rank {level.rank}, weight {level.weight:g})" in DOC


def test_the_example_of_the_page_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(DOC.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    assert load(file, {}, {}).models["embed"].max_batch == 32
