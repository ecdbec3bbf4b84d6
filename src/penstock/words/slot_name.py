"""The name of a slot among processes: its worker process, its model, and its number there. A worker names its slots
(`cluster/worker_slots.py`); batchers read from the name to which mailbox a batch goes."""

from msgspec import Struct

from penstock.types import WorkerId


class SlotName(Struct, frozen=True):
    """The name of a slot, as text `process/model/number`. No name of a process or a model has a slash in it."""

    process: str
    model: str
    number: int

    @property
    def text(self) -> WorkerId:
        return WorkerId(f"{self.process}/{self.model}/{self.number}")

    @classmethod
    def parse(cls, text: str) -> "SlotName | None":
        """The slot's name in this text; None for text that never was one."""
        process, _, rest = text.partition("/")
        model, _, number = rest.partition("/")
        if not (process and model and number.isascii() and number.isdigit()):
            return None
        return cls(process, model, int(number))


def process_of(slot: str) -> str:
    """The worker process of a slot, which is also the name of its mailbox. This is called for every batch, so it
    makes no `SlotName`."""
    return slot.partition("/")[0]
