"""The configuration in force, and how it changes while a server runs: on SIGHUP it is read again, from the file,
the environment and the command line as at the start. What can change is taken over, and the log says what was, and
what needs a restart. A configuration with a mistake changes nothing.

Each role makes one for its process (`roles/`), and `life.py` calls `reload` on the signal. A thread reads the
files.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from penstock.config import Config, changes
from penstock.errors import UserMistake
from penstock.logs import LEVELS, set_level

log = logging.getLogger("penstock.settings")

Read = Callable[[], Config]  # reads the configuration; raises UserMistake
Follow = Callable[[Config, Config], None]  # called with the configuration until now, and the new one


class LiveSettings:
    """The configuration of one process."""

    def __init__(self, config: Config, read: Read | None, follow: Follow) -> None:
        """`read`: reads the configuration again; None if it cannot be. `follow`: makes the process go by another
        configuration, which differs only in what can change."""
        self.config = config
        self.need_restart: Sequence[str] = ()  # keys that have changed since the start and are not in force
        self._read, self._follow = read, follow
        self._reading: asyncio.Task[None] | None = None  # the reading that is under way
        self._again = False  # whether the signal came while the configuration was being read

    def reload(self) -> None:
        """Read the configuration again. Files may be slow, so a thread does that."""
        if self._reading is not None:
            self._again = True
            return
        self._reading = asyncio.ensure_future(self._reload())

    async def _reload(self) -> None:
        try:
            while True:
                self._again = False
                await self._reload_once()
                if not self._again:
                    return
        finally:
            self._reading = None

    async def _reload_once(self) -> None:
        if self._read is None:
            log.warning("the settings cannot be read again here: restart to change them")
            return
        try:
            new = await asyncio.to_thread(self._read)
            found = changes(self.config, new)
        except UserMistake as mistake:
            log.error("the settings stay as they are: %s", mistake.message)
            return
        except Exception:
            log.exception("the settings stay as they are: they could not be read")
            return
        self.need_restart = found.need_restart
        levels = self.config.server.log_level, found.config.server.log_level
        if found.taken:
            try:
                self._follow(self.config, found.config)
            except Exception:
                log.exception("the settings were taken over only in part: restart this process")
                return
            self.config = found.config
            # The more talkative level of both, until all is told.
            set_level(min(levels, key=LEVELS.index))
        for each in found.taken:
            values = {"was": each.was or "not set", "now": each.now or "not set", "from": each.source}
            log.info("%s: changed", each.key, extra=values)
        for key in found.need_restart:
            log.warning("%s: needs a restart", key)
        if not found.taken and not found.need_restart:
            log.info("the settings were read again: nothing has changed")
        set_level(levels[1])

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
