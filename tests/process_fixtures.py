"""A process that is well may be late to say so, or to end: who tests one of these limits sets it."""

import pytest

_PATIENCE = 60.0


@pytest.fixture
def patient_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("process.BEAT_EVERY", "process.LOOK_LIMIT", "spawned.LAST_GRACE", "spawned.REAP_WAIT"):
        monkeypatch.setattr(f"penstock.adapters.backends.{limit}", _PATIENCE)
