"""The hand that runs a command of the user's: `nomad job scale penstock {workers}`, say. `roles/autoscaler.py`
makes it.

The command is run without a shell. It counts as done if it ends with 0 in time. The number is also in its
environment, as PENSTOCK_WORKERS.
"""

import asyncio
import os
import shlex
import signal
from contextlib import suppress

from penstock.errors import UserMistake
from penstock.ports.scaling import NotScaled

NUMBER = "{workers}"
SHOWN = 200  # characters of what the command printed


class Command:
    """Implements `ports.scaling.Hand`."""

    def __init__(self, command: str, timeout: float) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UserMistake(f"autoscaler.command is not a command line: {error}") from None
        self._timeout = timeout

    async def present(self) -> int | None:
        """Returns None: the command does not tell how many workers there are."""
        return None

    async def scale(self, workers: int) -> None:
        words = [word.replace(NUMBER, str(workers)) for word in self._words]
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "PENSTOCK_WORKERS": str(workers)},
                start_new_session=True,
            )
        except OSError as error:
            raise NotScaled(f"autoscaler.command: {words[0]} cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(self._timeout):
                said, _ = await process.communicate()
        except TimeoutError:
            raise NotScaled(f"autoscaler.command did not end within {self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            words_of_it = said.decode(errors="replace").strip()[-SHOWN:]
            raise NotScaled(f"autoscaler.command ended with {process.returncode}: {words_of_it}")

    async def close(self) -> None:
        """Does nothing: no command runs between two changes."""
