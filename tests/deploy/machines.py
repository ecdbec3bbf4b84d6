"""Two machines in network namespaces of their own, with a cable between them.

with two_machines("10.0.0.5", "10.0.0.6") as (first, second):
    first.run("ping", "-c", "1", second.address)
    first.unplug()
"""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from server import eventually

TOOLS = ("unshare", "nsenter", "ip", "sleep")
FOR_EVER = ("sleep", "infinity")


@dataclass
class Machine:
    address: str
    holder: "subprocess.Popen[bytes]"  # as long as it lives, the namespace does

    def inside(self, *command: str) -> list[str]:
        """The command, for this machine."""
        space = f"/proc/{self.holder.pid}/ns"
        return ["nsenter", f"--user={space}/user", f"--net={space}/net", "--", *command]

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.inside(*command), capture_output=True, text=True, check=False)

    def do(self, *command: str) -> None:
        done = self.run(*command)
        assert done.returncode == 0, done.stderr

    def unplug(self) -> None:
        self.do("ip", "link", "set", "cable", "down")

    def plug(self) -> None:
        self.do("ip", "link", "set", "cable", "up")


def _held(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """A process that has a network of its own, once it has it."""
    process = subprocess.Popen(
        [*command, *FOR_EVER], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    ours = Path("/proc/self/ns/net").readlink()

    def there() -> bool:
        if process.poll() is not None:
            pytest.skip("network namespaces are not allowed here")
        here = Path(f"/proc/{process.pid}")
        return (here / "ns/net").readlink() != ours and (here / "cmdline").read_bytes().startswith(b"sleep")

    eventually(there)
    return process


@contextmanager
def two_machines(first: str, second: str) -> Iterator[tuple[Machine, Machine]]:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not on the PATH: {', '.join(missing)}")
    machines: list[Machine] = []
    try:
        machines.append(Machine(first, _held(["unshare", "--map-root-user", "--net"])))
        # Within the user namespace of the first, which may then hand it one end of the cable.
        machines.append(Machine(second, _held(machines[0].inside("unshare", "--net"))))
        ends = ("type", "veth", "peer", "name", "cable", "netns", str(machines[1].holder.pid))
        machines[0].do("ip", "link", "add", "cable", *ends)
        for machine in machines:
            machine.do("ip", "link", "set", "lo", "up")
            machine.do("ip", "addr", "add", f"{machine.address}/24", "dev", "cable")
            machine.plug()
        yield machines[0], machines[1]
    finally:
        for machine in machines:
            machine.holder.kill()
            machine.holder.wait()
