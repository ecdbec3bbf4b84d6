"""The table of all attacks, in their long forms: `python -m tests.attack [--against CHECKOUT] [--only WORD …]`.

With `--against` each attack also meets the server of another checkout, in the same run: before and after.
"""

import argparse
import importlib
import os
import sys
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / each) for each in ("", "chaos", "roles"))]

from aim import Attack  # noqa: E402
from arena import Arena  # noqa: E402
from verdict import Verdict  # noqa: E402

COLUMNS = ("calm p99", "p99 under attack", "failures", "dead probes", "memory before → peak → after")


def attacks() -> list[Attack]:
    """Every attack of this folder, in the order of its files."""
    found = {}
    for file in sorted((*HERE.glob("listed_*.py"), *HERE.glob("test_*.py"))):
        for each in vars(importlib.import_module(file.stem)).values():
            if isinstance(each, Attack):
                found[each.name] = each
    return list(found.values())


NAMES = {attack.name for attack in attacks()}


def judged(attack: Attack, checkout: Path | None) -> Verdict:
    """On a server of its own. PYTHONPATH comes before what is installed, so the checkout needs no environment."""
    if checkout is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = str((checkout / "src").resolve(strict=True))
    with closing(Arena(long=True)) as arena:
        return arena.judge(attack)


def row(attack: Attack, verdicts: list[Verdict]) -> str:
    cells = [attack.name, str(attack.stage)]
    for verdict in verdicts:
        cells += [*verdict.cells(), "**no**" if verdict.faults else "yes"]
    return f"| {' | '.join(cells)} |"


def _is_meant(name: str, words: list[str]) -> bool:
    """A word that is a whole name means that attack alone."""
    return not words or name in words or any(word in name for word in words if word not in NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout of Penstock, for columns before these")
    parser.add_argument("--without-this", action="store_true", help="only the other checkout")
    parser.add_argument("--only", action="append", default=[], help="attacks with this word in their names")
    parser.add_argument("--list", action="store_true", help="say what there is, and attack nothing")
    given = parser.parse_args()
    chosen = [each for each in attacks() if _is_meant(each.name, given.only)]
    if given.list:
        print("\n".join(f"{each.name}: {each.says}" for each in chosen))
        return
    trees: list[Path | None] = [given.against] if given.against else []
    if not given.without_this:
        trees.append(None)
    names = ["before: ", ""] if len(trees) == 2 else [""]
    columns = ["attack", "server", *(name + each for name in names for each in (*COLUMNS, "withstood"))]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for attack in chosen:
        verdicts = [judged(attack, tree) for tree in trees]
        print(row(attack, verdicts), flush=True)
        for verdict in verdicts:
            print(f"  {verdict}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
