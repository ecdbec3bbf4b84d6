"""Makes a configuration of what a running server says of its own (`/internal/config`), as far as a simulation needs
it. `cli/tuned.py` calls it for `penstock tune --from`. The settings go through a temporary file."""

import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.config.config import DEFAULT, Config, Setting
from penstock.config.load import load

SECTIONS = ("models", "tiers", "timeouts", "limits", "retries")
NOT_NEEDED = ("http", "grpc", "warmup")  # of a model: how it is reached, and what it is sent beforehand


def told_config(settings: Iterable[Setting]) -> Config:
    """Returns the configuration. `settings`: as the server tells them. Every value of a named tier is taken over,
    since a file that names tiers names all of them; of everything else only what is not the default."""
    document = "\n".join(f"{each.key} = {each.value}" for each in settings if _counts(each))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "told.toml")
        file.write_text(document, encoding="utf-8")
        return load(file, {}, {})


def _counts(setting: Setting) -> bool:
    if not setting.value or setting.source.startswith("follows "):
        return False
    path = list(_path(tomllib.loads(f"{setting.key} = 0")))
    if path[0] not in SECTIONS or (path[0] == "models" and path[2] in NOT_NEEDED):
        return False
    return setting.source != DEFAULT or path[:2] == ["tiers", "levels"]


def _path(document: Mapping[str, Any]) -> Iterator[str]:
    """Yields the parts of the only key."""
    for name, inside in document.items():
        yield name
        if isinstance(inside, dict):
            yield from _path(inside)
