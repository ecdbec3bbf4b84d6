"""How much memory the store of `penstock up` may use."""

from pathlib import Path

import pytest

from penstock.installation import store_memory as module
from penstock.installation.store_memory import LEAST, memory_here, store_memory

GIB = 2**30


def test_it_is_what_the_config_says_or_a_quarter_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "memory_here", lambda: 8 * GIB)
    assert (store_memory(None), store_memory(5)) == (2 * GIB, 5)
    monkeypatch.setattr(module, "memory_here", lambda: GIB // 2)
    assert store_memory(None) == LEAST


def test_a_container_that_may_use_less_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory_here()
    file = tmp_path / "memory.max"
    monkeypatch.setattr(module, "_CONTAINER", (tmp_path / "none", file))
    for said, seen in (("max\n", None), ("1000\n", 1000)):
        file.write_text(said)
        assert memory_here() == seen or (seen is None and memory_here() >= whole)
