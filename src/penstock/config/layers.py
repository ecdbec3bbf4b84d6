"""The three layers that values come from: file, environment, command line. A later layer wins over an earlier one.

All three write into one tree of tables. Its leaves are `Given`: the value as it was written, and where. `load`
calls one function for each layer, in their order.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.config.schema import Item, Key, NamedTables, Table, did_you_mean, items
from penstock.config.toml import KeyPath, dotted, key_lines, toml
from penstock.errors import UserMistake

PREFIX = "PENSTOCK_"
# Variables that begin with PREFIX and are no settings.
READ_ELSEWHERE = (
    "PENSTOCK_CONFIG",  # read by the command line itself
    "PENSTOCK_DEBUG",  # read by the command line itself
    "PENSTOCK_ADMIN",  # read by the command line itself
    "PENSTOCK_API_KEY",  # read by the client
    "PENSTOCK_SLOT",  # set for a user's function
)

# Variables that Kubernetes sets in every pod for every service: one called penstock-server makes
# PENSTOCK_SERVER_PORT "tcp://10.0.0.7:8000", which is no setting of Penstock.
_SERVICE_LINK = re.compile(
    r"PENSTOCK_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=.*"
    r"|PENSTOCK_(\w+_)?PORT=(tcp|udp|sctp)://.*"
)

Tree = dict[str, Any]  # its values are `Given` or trees


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody gave it."""

    value: object
    source: str
    as_text: bool = False  # whether it came as text, and must be read by its kind


def read_file(file: Path, section: type[Any]) -> Tree:
    """Returns the values of a file. `section`: the class that says what may be in it. Raises UserMistake, also for
    tables and keys that do not exist."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text)
    except FileNotFoundError:
        raise UserMistake(f"{file}: there is no such file") from None
    except OSError as error:
        raise UserMistake(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserMistake(f"{file}: is not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise UserMistake(f"{file}: is not valid TOML: {error}") from error
    lines = key_lines(text)

    def line_of(path: KeyPath) -> str:
        return f"{file}:{lines[path]}" if path in lines else str(file)

    return _plant(content, section, (), line_of)


def _plant(
    content: Mapping[str, object], section: type[Any], above: KeyPath, line_of: Callable[[KeyPath], str]
) -> Tree:
    """Returns one table of a file as a tree. `section`: what may be in it; `above`: where it stands in the file."""
    known, tree = items(section), Tree()
    for name, value in content.items():
        here = (*above, name)
        match known.get(name):
            case Key():
                tree[name] = Given(value, line_of(here))
            case Table(inner):
                tree[name] = _plant(_table(value, here, line_of), inner, here, line_of)
            case NamedTables(inner):
                tables = _table(value, here, line_of)
                tree[name] = {
                    chosen: _plant(_table(inside, (*here, chosen), line_of), inner, (*here, chosen), line_of)
                    for chosen, inside in tables.items()
                }
            case None:
                table = f" in [{dotted(above)}]" if above else ""
                meant = did_you_mean(name, known) or _deeper(name, value, known, above)
                raise UserMistake(f"{line_of(here)}: unknown key '{name}'{table}{meant}")
    return tree


def _deeper(name: str, value: object, known: Mapping[str, Item], above: KeyPath) -> str:
    """Returns a hint for a section that belongs one level below, such as [tiers.levels.x] for [tiers.x]; else
    empty."""
    under = [key for key, item in known.items() if isinstance(item, NamedTables)]
    if not above or len(under) != 1 or not isinstance(value, dict):
        return ""
    return f"; did you mean [{dotted((*above, under[0], name))}]?"


def _table(value: object, here: KeyPath, line_of: Callable[[KeyPath], str]) -> dict[str, object]:
    if not isinstance(value, dict):
        raise UserMistake(
            f"{line_of(here)}: {dotted(here)} must be a table, [{dotted(here)}], not {toml(value)}"
        )
    return value


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns Penstock's settings in the environment."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if name.startswith(PREFIX)
        and name not in READ_ELSEWHERE
        and not _SERVICE_LINK.fullmatch(f"{name}={value}")
    }


def variable(path: KeyPath) -> str:
    """Returns the environment's name for a key: PENSTOCK_MODELS_MY_MODEL_MAX_BATCH for
    models.my-model.max_batch."""
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", "_".join(path).upper())


def lay_environment(tree: Tree, environ: Mapping[str, str], known: Mapping[KeyPath, KeyPath]) -> None:
    """Lays variables over the tree. `known` maps a path as it may be named to the key that it means."""
    meanings: dict[str, list[KeyPath]] = {}
    for named in known:
        meanings.setdefault(variable(named), []).append(named)
    laid: dict[KeyPath, str] = {}
    for name, value in environ.items():
        match meanings.get(name):
            case [named]:
                if (other := laid.setdefault(known[named], name)) != name:
                    raise UserMistake(f"{other} and {name} both set {dotted(known[named])}: keep one")
                _lay(tree, known[named], Given(value, name, as_text=True))
            case None:
                meant = did_you_mean(name, meanings, len(PREFIX))
                raise UserMistake(f"unknown environment variable '{name}'{meant}")
            case several:
                keys = " and ".join(dotted(path) for path in several)
                raise UserMistake(f"environment variable '{name}' could mean {keys}: set that in the file")


def lay_command_line(tree: Tree, overrides: Mapping[str, object], known: Mapping[KeyPath, KeyPath]) -> None:
    """Lays options over the tree, by their dotted keys."""
    by_key = {dotted(named): path for named, path in known.items()}
    for key, value in overrides.items():
        if key not in by_key:
            raise UserMistake(f"unknown setting '{key}'{did_you_mean(key, by_key)}")
        _lay(tree, by_key[key], Given(value, option(key), as_text=isinstance(value, str)))


# Keys whose option is not the one that the rule in `option` gives.
_CALLED = {
    "model.target": "TARGET",
    "model.name": "--model",
    "auth.mode": "--auth",
    "tls.certificate": "--tls-cert",
    "redis.url": "--redis",
    "redis.name": "--name",
    "autoscaler.rules": "--rules",
    "autoscaler.act": "--act",
    "autoscaler.deployment": "--deployment",
    "autoscaler.account": "--account",
    "autoscaler.command": "--command",
}


def option(key: str) -> str:
    """Returns the command line's option for a key, such as --port, --max-batch or --retries-attempts."""
    if key in _CALLED:
        return _CALLED[key]
    section, _, name = key.rpartition(".")
    called = name if section in ("server", "limits", "model") else key.replace(".", "-")
    return "--" + called.replace("_", "-")


def _lay(tree: Tree, path: KeyPath, given: Given) -> None:
    *tables, name = path
    for table in tables:
        tree = tree.setdefault(table, {})
    tree[name] = given
