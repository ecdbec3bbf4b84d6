"""Builds one `Config` from a file, the environment and the command line, or says in one line what is wrong.

The command line wins over the environment (PENSTOCK_…), that over the file, and that over the default. Nothing else
in Penstock decides this order. The commands call `load`, and so does `told.py`. The file is read here.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.config.config import DEFAULT, Config
from penstock.config.consistency import refuse_contradictions
from penstock.config.kinds import Headers, Ids, Kind
from penstock.config.layers import (
    Given,
    Tree,
    lay_command_line,
    lay_environment,
    option,
    read_file,
    variable,
    variables,
)
from penstock.config.otel import lay_otel
from penstock.config.schema import Key, NamedTables, Table, did_you_mean, items, key_paths
from penstock.config.sections import Tiers
from penstock.config.toml import KeyPath, dotted, toml
from penstock.errors import UserMistake
from penstock.units import MissingUnit

USUAL_FILE = Path("penstock.toml")
TRACES_GO = ("tracing", "endpoint")
ONE_MODEL = "model"  # begins keys such as model.max_batch, of the only model or of the one that is chosen


def find_file(chosen: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Returns the file to load: the one chosen, else PENSTOCK_CONFIG, else penstock.toml if it is here; else
    None."""
    if chosen is not None:
        return chosen
    if named := environ.get("PENSTOCK_CONFIG"):
        return Path(named)
    return USUAL_FILE if USUAL_FILE.is_file() else None


def load(file: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> Config:
    """Builds the configuration. An override of None counts as not given. Raises UserMistake."""
    settings = variables(environ)
    options = {key: value for key, value in overrides.items() if value is not None}

    tree = _with_usual_levels(read_file(file, Config) if file else {})
    model = _one_model(list(tree.get("models", {})), settings, options)
    for selector in (variable((ONE_MODEL, "name")), f"{ONE_MODEL}.name"):
        settings.pop(selector, None)
        options.pop(selector, None)
    if model is not None:
        tree.setdefault("models", {}).setdefault(model, {})
    known = _names_of_keys(tree, model)
    lay_otel(tree, environ, traces=any(map(_is_endpoint, (*settings, *options))))
    lay_environment(tree, settings, known)
    lay_command_line(tree, options, known)
    for name, table in tree.get("models", {}).items():
        _a_worker_for_each_gpu(table, ("models", name, "gpus"))

    sources: dict[str, str] = {}
    values = _values(Config, tree, (), sources)
    config = Config(**values, sources=sources)
    refuse_contradictions(config)
    return config


def _with_usual_levels(tree: Tree) -> Tree:
    """Returns the tree with the usual tiers, unless the file names tiers: then it names all of them."""
    usual = {
        name: {key: Given(value, DEFAULT) for key, value in asdict(level).items() if value is not None}
        for name, level in Tiers().levels.items()
    }
    tree.setdefault("tiers", {}).setdefault("levels", usual)
    return tree


def _is_endpoint(key: str) -> bool:
    """Returns whether a variable or an option says where traces go."""
    return key in (variable(TRACES_GO), dotted(TRACES_GO))


def _a_worker_for_each_gpu(model: Tree, path: KeyPath) -> None:
    """Gives a model with GPUs as many workers, unless their number is set."""
    gpus = model.get("gpus")
    if gpus is not None and "workers" not in model:
        model["workers"] = Given(max(1, len(_taken(Ids(), gpus, path))), gpus.source)


def _one_model(models: list[str], settings: Mapping[str, str], options: Mapping[str, object]) -> str | None:
    """Returns the name of the model that model.* and PENSTOCK_MODEL_* mean; None if none of these is set."""
    spoken = [option(key) for key in options if key.startswith(f"{ONE_MODEL}.")]
    spoken += [name for name in settings if name.startswith(variable((ONE_MODEL, "")))]
    if not spoken:
        return None
    name, target = (
        options.get(f"{ONE_MODEL}.{key}") or settings.get(variable((ONE_MODEL, key)))
        for key in ("name", "target")
    )
    if name is not None:
        if name in models or target:
            return str(name)
        raise UserMistake(f"there is no model '{name}'{did_you_mean(str(name), models)}")
    if len(models) > 1:
        raise UserMistake(
            f"{spoken[0]} is for one model and there are {len(models)} ({', '.join(models)}):"
            " choose one with --model NAME"
        )
    if models:
        return models[0]
    if not target:
        raise UserMistake(
            f"{spoken[0]}: there is no model yet; give a TARGET, or a [models.NAME] in the file"
        )
    return name_after(str(target))


def name_after(target: str) -> str:
    """Returns a name for a model that has none: its function, its name at an endpoint, its host, or `sim`."""
    url, _, query = target.partition("?")
    if target.startswith(("grpc://", "grpcs://", "oip+")):
        name = url.rpartition("/")[2]
    elif "://" in target:
        named = re.search(r"(?:^|&)model=([^&]+)", query) if target.startswith("openai") else None
        name = named[1].rpartition("/")[2] if named else _host(target)
    elif target.startswith("sim:"):
        name = "sim"
    else:
        name = target.rpartition(":")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or ONE_MODEL


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # whoever connects to it will say what is wrong with it
        return ""


def _names_of_keys(tree: Tree, model: str | None) -> dict[KeyPath, KeyPath]:
    """Returns every key by its own path, and the keys of the model that model.* means by that path too."""
    paths = list(key_paths(Config, tree))
    short = {(ONE_MODEL, *path[2:]): path for path in paths if path[:2] == ("models", model)}
    return short | {path: path for path in paths}


def _values(section: type[Any], tree: Tree, above: KeyPath, sources: dict[str, str]) -> dict[str, Any]:
    """Returns the arguments of a section, and notes in `sources` where they came from. What the tree does not have
    is left to its default."""
    values: dict[str, Any] = {}
    for name, item in items(section).items():
        here = (*above, name)
        if name not in tree:
            if isinstance(item, Key) and item.required:
                raise UserMistake(f"[{dotted(above)}] needs '{name}', {item.kind.wanted}")
            continue
        match item:
            case Key(kind=kind):
                values[name] = _taken(kind, tree[name], here)
                if tree[name].source != DEFAULT:
                    sources[dotted(here)] = tree[name].source
            case Table(inner):
                values[name] = inner(**_values(inner, tree[name], here, sources))
            case NamedTables(inner):
                values[name] = {
                    chosen: inner(**_values(inner, inside, (*here, chosen), sources))
                    for chosen, inside in tree[name].items()
                }
    return values


def _taken(kind: Kind, given: Given, here: KeyPath) -> Any:
    try:
        return kind.read(str(given.value)) if given.as_text else kind.take(given.value)
    except MissingUnit as error:
        where = given.source if given.source.startswith("--") else f"{given.source}: {dotted(here)}"
        raise UserMistake(f"{where}: {error}") from None
    except ValueError:
        shown = toml(given.value)
        refused = f", not {shown if len(shown) <= 80 else shown[:79] + '…'}"
        secret = isinstance(kind, Headers)
        raise UserMistake(
            f"{given.source}: {dotted(here)} must be {kind.wanted}{'' if secret else refused}"
        ) from None
