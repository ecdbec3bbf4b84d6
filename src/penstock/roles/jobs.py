"""Makes what keeps the files of a process with clients and runs their lines, as the configuration allows it. The
roles that answer clients call it (`embedded.py`, `gateway.py`)."""

from collections.abc import Callable
from pathlib import Path

from penstock.adapters.job_store.directory import DirectoryStore
from penstock.config import Config
from penstock.core.job_restraint import RestraintRules
from penstock.jobs import Slack
from penstock.ports import Clock
from penstock.runtime.jobs.service import JobService
from penstock.runtime.jobs.shelf import JobBounds


def jobs_of(config: Config, slack: Callable[[str | None], Slack], clock: Clock) -> JobService | None:
    """Returns None if no files are taken. `slack`: how busy the workers of a model are."""
    said, limits = config.files, config.limits
    if not said.directory or not config.doors.openai:
        return None
    bounds = JobBounds(
        max_file=said.max_file,
        max_bytes=said.max_bytes,
        max_files=said.max_files,
        max_lines=said.max_lines,
        max_line=limits.max_body,
        max_jobs=said.max_batches,
        share=limits.tenant_share,
        keep=said.keep,
        window=said.window,
    )
    rules = RestraintRules(said.in_flight, said.in_the_way)
    return JobService(DirectoryStore(Path(said.directory)), bounds, slack, rules, clock)
