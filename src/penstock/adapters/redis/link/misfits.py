"""Keys of the wrong type, with which our commands fail. Such a key is put out of the way, and the command is sent
again. Every client of `connection.py` does so.

Somebody wrote the key by mistake, or another program shares the namespace. If it stayed, every command on it would
fail for ever. It is kept for a day under the name `<key>:aside`, the latest of each name; a large one is dropped.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from redis.exceptions import ResponseError

from penstock.adapters.redis.link.names import Keys

KEPT_MS = 24 * 3600 * 1000  # milliseconds for which such a key is kept
LARGE = 1 << 20  # bytes from which a key of the wrong type is dropped
BOX_LIFETIME_MS = 60_000  # how long a mailbox lives after its owner's last heartbeat

# KEYS  the key, its new name
# ARGV  the type it should have, ms for which it is kept, bytes from which it is dropped, ms that a mailbox lives (0
#       for other keys)
# Returns the type found, or nil when there was nothing to do. A mailbox is made anew at once, because a process
# whose mailbox is missing counts as gone.
_SET_ASIDE = """#!lua flags=allow-oom
local found = redis.call('TYPE', KEYS[1]).ok
if found == ARGV[1] or found == 'none' then return false end
local size = redis.pcall('MEMORY', 'USAGE', KEYS[1])
if type(size) == 'number' and size > tonumber(ARGV[3]) then redis.call('UNLINK', KEYS[1])
else
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
if ARGV[4] ~= '0' then
  redis.call('XADD', KEYS[1], '*', 'hello', '')
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return found
"""

Execute = Callable[..., Awaitable[Any]]
Arguments = tuple[Any, ...]


def is_misfit(error: BaseException) -> bool:
    """Returns whether a command failed because a key has the wrong type."""
    return isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE")


class Misfits:
    """Executes commands, and mends what is in their way."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        # Called with the key, and the type that it had.
        self.on_set_aside: Callable[[str, str], None] = lambda key, found: None

    async def without(self, execute: Execute, command: Arguments, options: Mapping[str, Any]) -> Any:
        """Returns the answer to a command. If a key of the wrong type was in its way, the command is sent again."""
        try:
            return await execute(*command, **options)
        except ResponseError as error:
            if not await self.mend(execute, error, command):
                raise
        return await execute(*command, **options)

    async def mend(self, execute: Execute, error: ResponseError, command: Arguments) -> bool:
        """Put keys of the wrong type out of the command's way. Returns whether there may have been one, so that the
        command should be sent again. Its keys are among its arguments. Another argument that looks like a key of
        ours is looked at as well, which does no harm."""
        if not is_misfit(error):
            return False
        mended = False
        for name in {_text(part) for part in command[1:] if isinstance(part, str | bytes)}:
            wanted = self._keys.type_of(name)
            if wanted is not None:
                lives = BOX_LIFETIME_MS if name.startswith(self._keys.box("")[:-1]) else 0
                arguments = (wanted, KEPT_MS, LARGE, lives)
                found = await execute("EVAL", _SET_ASIDE, 2, name, f"{name}:aside", *arguments)
                mended = True  # we have put it away, or another process did so at the same moment
                if found is not None:
                    self.on_set_aside(name, _text(found))
        return mended


def _text(part: str | bytes) -> str:
    return part if isinstance(part, str) else part.decode(errors="replace")
