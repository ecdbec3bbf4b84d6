"""Reads recorded arrivals: the CSV of the Azure LLM traces, and what a server writes for `[trace] record`, which
has more columns. A schedule that replays a trace is read with it (`arrivals.py`), and so are the figures that
`penstock plan` and `penstock tune` take from one. Files are read, and nothing is written."""

import csv
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from penstock.errors import UserMistake

MOST = 2**31  # tokens or bytes of one request
NEEDED = {"TIMESTAMP", "ContextTokens"}  # the columns that every trace has
SIZE, TENANT, TIER, MODEL = "InputBytes", "Tenant", "Tier", "Model"  # the columns that only a server writes


@dataclass(frozen=True, slots=True)
class Recorded:
    """Requests in the order of their arrival."""

    times: "array[float]"  # seconds since the epoch
    tokens: "array[int]"  # how many tokens each input had
    sizes: "array[int] | None" = None  # bytes of each input; None if the file does not have them
    # By tier: its part of the requests. None if the file does not say.
    tiers: Mapping[str, float] | None = None
    tenants: int = 1  # how many different tenants there were

    @property
    def rate(self) -> float:
        """Requests a second."""
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])


def read(path: Path, model: str | None = None) -> Recorded:
    """Returns what the file holds. `model`: leave out the requests to other models, if the file says which model
    each was for. Raises UserMistake if the file cannot be read, or is no trace."""
    times, tokens, sizes = array("d"), [], []
    tiers, tenants = Counter[str](), set[str]()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            columns = set(rows.fieldnames or ())
            if missing := NEEDED - columns:
                raise UserMistake(f"{path}: not a trace, the header lacks {' and '.join(sorted(missing))}")
            sized = SIZE in columns
            for row in rows:
                if model is not None and row.get(MODEL, model) != model:
                    continue
                try:
                    times.append(_seconds(row["TIMESTAMP"]))
                    tokens.append(_count(row["ContextTokens"], may_lack=sized))
                    sizes.append(_count(row[SIZE], may_lack=True) if sized else None)
                except (TypeError, ValueError, OverflowError):
                    raise UserMistake(
                        f"{path}, line {rows.line_num}: expected a UTC time and a count of tokens, "
                        f"found {row['TIMESTAMP']!r} and {row['ContextTokens']!r}"
                    ) from None
                tiers[row.get(TIER) or ""] += 1
                tenants.add(row.get(TENANT) or "")
    except OSError as error:
        raise UserMistake(f"cannot read the trace {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise UserMistake(f"{path}: not a trace, expected CSV text") from None
    if len(times) < 2:
        of_model = f" of {model}" if model is not None else ""
        raise UserMistake(f"{path}: a trace needs at least two requests{of_model}, this one has {len(times)}")
    # A trace is not always in order: a recorder may write a request just after a later one, and a server writes
    # each when it has ended.
    order = sorted(range(len(times)), key=times.__getitem__)
    found = Recorded(
        array("d", (times[i] for i in order)),
        _filled(tokens, order),
        _filled(sizes, order) if sized else None,
        _shares(tiers),
        len(tenants),
    )
    if found.times[-1] <= found.times[0]:
        raise UserMistake(
            f"{path}: all requests of this trace come at one instant; a rate needs a span of time"
        )
    return found


def _filled(counts: Sequence[int | None], order: Sequence[int]) -> "array[int]":
    """Returns the counts in order. A count that is not known, because its request was refused, is taken for the
    mean."""
    known = [count for count in counts if count is not None]
    mean = round(sum(known) / len(known)) if known else 1
    return array("L", (mean if (count := counts[i]) is None else count for i in order))


def _shares(tiers: "Counter[str]") -> Mapping[str, float] | None:
    named = {name: count for name, count in tiers.items() if name}
    whole = sum(named.values())
    return {name: count / whole for name, count in named.items()} if named else None


def _count(text: str, *, may_lack: bool) -> int | None:
    if may_lack and not text:
        return None
    count = int(text)
    if not 0 <= count < MOST:
        raise ValueError(text)
    return count


def _seconds(stamp: str) -> float:
    """Returns a time of a trace as seconds since the epoch. Traces have seven digits after the point.
    `datetime` reads six, so the fraction is read by itself."""
    whole, _, fraction = stamp.strip().partition(".")
    base = datetime.fromisoformat(whole + "+00:00").timestamp()
    return base + (float(f"0.{fraction}") if fraction else 0.0)
