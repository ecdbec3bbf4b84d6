"""The line on a terminal that shows a run while it runs. `penstock bench` shows it if its output is a terminal; the
load (`load.py`) calls it every second."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.bench.load import Load
from penstock.load.report import at_share


class Progress:
    """The line. It is redrawn on the event loop, which costs too little to hold up the schedule."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._sent = 0  # requests that were sent when the line was last drawn
        self._elapsed = 0.0  # seconds of the run at that moment

    def __enter__(self) -> "Progress":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, load: Load) -> None:
        self._live.update(Text(self.line(load), no_wrap=True, overflow="ellipsis"), refresh=True)

    def line(self, load: Load) -> str:
        """Returns the text of the line: what has happened since it was last asked for."""
        elapsed, outcomes, plan = load.elapsed, load.outcomes, load.plan
        latencies = sorted(outcomes.recent)
        outcomes.recent = []
        rate = (load.sent - self._sent) / max(elapsed - self._elapsed, 1e-9)
        self._sent, self._elapsed = load.sent, elapsed
        stage = "last answers" if elapsed > plan.duration else "warm-up " if elapsed < plan.warmup else ""
        parts = [
            stage if elapsed > plan.duration else f"{stage}{elapsed:.0f}/{plan.duration:.0f} s",
            f"{rate:,.0f}/s",
            f"sent {load.sent:,}",
            f"ok {outcomes.ok:,}",
            f"rejected {outcomes.rejected:,}",
        ]
        if outcomes.failed:
            parts.append(f"errors {outcomes.failed:,}")
        if latencies:
            p50, p99 = at_share(latencies, 0.5), at_share(latencies, 0.99)
            parts.append(f"p50/p99 {p50 * 1000:.1f}/{p99 * 1000:.1f} ms")
        return "  ".join(parts)
