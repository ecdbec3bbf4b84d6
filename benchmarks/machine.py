"""Describes the machine that figures were measured on: a figure without its machine says nothing. Every result is
printed and written with it."""

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    cpu: str
    cores: int  # that this process may run on
    memory_gib: float
    system: str
    python: str
    date: str  # UTC
    load: float  # processes already waiting for a core when the measuring began

    def __str__(self) -> str:
        return (
            f"{self.cores} cores of {self.cpu}, {self.memory_gib:.0f} GiB, {self.system}, "
            f"Python {self.python}, {self.date}, load before {self.load:.1f}"
        )


def describe() -> Machine:
    return Machine(
        cpu=cpu_model(Path("/proc/cpuinfo").read_text()),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        load=os.getloadavg()[0],
    )


def cpu_model(cpuinfo: str) -> str:
    """The processor's name, which not every architecture gives in /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
