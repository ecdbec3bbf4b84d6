"""wrk, the closed-loop load generator: as many requests as a server will take from a number of connections. Every
benchmark of throughput loads its server with it.

Good for a maximum, wrong for latency under load (it waits for an answer before it asks again), so no latency
is reported here.
"""

import json
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.errors import UserMistake

PATIENCE_SECONDS = 30  # so long that a slow answer is no error: slowness shows in the figure itself
MARK = "penstock-wrk "  # begins the line that the script prints at the end

# The end of every script: what was counted, as one line of JSON behind a mark.
DONE = """
function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '{mark}{{"requests": %d, "microseconds": %d, "status": %d, "connect": %d, "read": %d, "write": %d, ' ..
    '"timeout": %d}}\\n',
    summary.requests, summary.duration, errors.status, errors.connect, errors.read, errors.write,
    errors.timeout))
end
"""

# Without a `request` function wrk builds the request once and sends the same bytes each time.
ONE = """
local file = assert(io.open({body}, "rb"))
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = file:read("*a")
file:close()
"""

# Whole requests, each behind its length in a line of its own. Every thread reads them before the load begins and
# sends them in turn, from a place of its own, so that making them costs the generator nothing.
REPLAY = """
local requests, turn = {{}}, 0
function setup(thread)
  turn = turn + 1
  thread:set("place", turn * 7919)
end
function init(args)
  local file = assert(io.open({requests}, "rb"))
  for length in file:lines() do
    requests[#requests + 1] = file:read(tonumber(length))
  end
  file:close()
end
function request()
  place = place + 1
  return requests[place % #requests + 1]
end
"""

# Goes behind `ONE` where every body must be another: a number that never comes again takes the placeholder's place.
PLACEHOLDER = "0" * 40
DISTINCT = """
local threads = 0
function setup(thread)
  threads = threads + 1
  thread:set("name", threads)
end

local sent, before, after = 0, string.match(wrk.body, "^(.*){placeholder}(.*)$")
function request()
  sent = sent + 1
  return wrk.format(nil, nil, nil, before .. string.format("{salt}%08d%016d", name, sent) .. after)
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """How many connections and threads wrk uses, and for how long."""

    connections: int = 512
    threads: int = 1
    seconds: int = 5  # wrk knows whole ones only

    def lasting(self, seconds: int) -> "Load":
        return replace(self, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Measurement:
    answers: int  # with a good status
    seconds: float
    bad_status: int
    socket_errors: int

    @property
    def rate(self) -> float:
        """Good answers per second."""
        return self.answers / self.seconds if self.seconds else 0.0

    @property
    def errors(self) -> int:
        return self.bad_status + self.socket_errors


def find() -> str:
    path = shutil.which("wrk")
    if path is None:
        raise UserMistake("wrk is not installed: apt-get install wrk (or your system's equivalent)")
    return path


def measure(url: str, body: bytes, load: Load) -> Measurement:
    """Post `body` to `url` from all connections at once, and count the answers.

    A body with a `PLACEHOLDER` in it is another one each time; all else is the same in every request.
    """
    request = ""
    if PLACEHOLDER.encode() in body:
        request = DISTINCT.format(placeholder=PLACEHOLDER, salt=secrets.token_hex(8))
    return _run(url, load, ONE + request, body=body)


def replay(url: str, requests: Sequence[bytes], load: Load) -> Measurement:
    """Send whole requests in turn (see `heads`) from all connections at once, and count the answers."""
    framed = b"".join(b"%d\n%b" % (len(request), request) for request in requests)
    return _run(url, load, REPLAY, requests=framed)


def _run(url: str, load: Load, script: str, **contents: bytes) -> Measurement:
    """Run wrk with this script, in which the name of each of `contents` stands for the path of its file."""
    with tempfile.TemporaryDirectory(prefix="wrk-") as folder:
        paths = {name: Path(folder, name) for name in contents}
        for name, path in paths.items():
            path.write_bytes(contents[name])
        file = Path(folder, "post.lua")
        places = {name: json.dumps(str(path)) for name, path in paths.items()}
        file.write_text((script + DONE).format(mark=MARK, **places))
        command = [
            find(),
            f"--threads={load.threads}",
            f"--connections={load.connections}",
            f"--duration={load.seconds}s",
            f"--timeout={PATIENCE_SECONDS}s",
            f"--script={file}",
            url,
        ]
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=load.seconds + 60, check=False
        )
    return parse(finished.stdout, finished.stderr)


def parse(output: str, complaints: str = "") -> Measurement:
    """Read the one line our script writes at the end of wrk's own report."""
    for line in output.splitlines():
        if line.startswith(MARK):
            counts = json.loads(line.removeprefix(MARK))
            return Measurement(
                answers=counts["requests"] - counts["status"],
                seconds=counts["microseconds"] / 1e6,
                bad_status=counts["status"],
                socket_errors=sum(counts[kind] for kind in ("connect", "read", "write", "timeout")),
            )
    reason = " ".join((complaints or output).split())
    raise RuntimeError(f"wrk gave no report: {reason or 'it said nothing'}")
