"""Makes the recorder of arrivals of a process, and shows how it stands. A process that answers clients has it among
its observers (`observers.py`), and its metrics show it (`process.py`)."""

import asyncio
from pathlib import Path

from penstock.adapters.recording.file import RecordFile
from penstock.adapters.recording.recorder import Recorder
from penstock.config import Config
from penstock.errors import UserMistake
from penstock.from_config.tiers import tier_names
from penstock.gauges import RecordingGauges
from penstock.ports import Clock


def recorder_of(config: Config, loop: asyncio.AbstractEventLoop, clock: Clock) -> Recorder | None:
    """Returns the recorder, with its file open; None if the configuration asks for none. Raises UserMistake."""
    if not config.trace.record:
        return None
    path = Path(config.trace.record)
    try:
        file = RecordFile(path, config.trace.limit)
    except OSError as error:
        raise UserMistake(
            f"trace.record: cannot write {path} ({error.strerror}): name a new file, in a folder that this user"
            " may write"
        ) from None
    return Recorder(file, tier_names(config), loop, clock)


def recording_gauges(recorder: Recorder | None) -> RecordingGauges | None:
    """Returns what the metrics show of the recorder; None if there is none."""
    return None if recorder is None else RecordingGauges(recorder.recorded, recorder.dropped)
