"""Keeps things in the order in which they came, for each tenant apart. The stores of tasks, of idempotency keys and
of dead letters find by it what of a tenant is oldest, and so must make room."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class ByTenant(Generic[T]):
    __slots__ = ("_rows",)

    def __init__(self) -> None:
        # An OrderedDict, since a plain dict is slow to find its first entry again.
        self._rows: dict[str, OrderedDict[Hashable, T]] = {}

    def add(self, tenant: str, name: Hashable, thing: T) -> None:
        self._rows.setdefault(tenant, OrderedDict())[name] = thing

    def drop(self, tenant: str, name: Hashable) -> bool:
        """Remove a thing. Returns whether it was there."""
        row = self._rows.get(tenant)
        if row is None or row.pop(name, None) is None:
            return False
        if not row:
            del self._rows[tenant]
        return True

    def oldest(self, tenant: str) -> T | None:
        """The thing of this tenant that came first; None if it has none."""
        row = self._rows.get(tenant)
        return None if row is None else next(iter(row.values()))
