"""Which server an attack meets: at the defaults, in one process or over Redis, with keys and TLS or without."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FUNCTION = f"{Path(__file__).with_name('model.py')}:batchstring"


@dataclass(frozen=True, slots=True)
class Stage:
    """`config`: of penstock.toml, besides what keys and TLS need."""

    form: Literal["serve", "up"] = "serve"
    keys: bool = False
    tls: bool = False
    target: str | None = FUNCTION  # None: `config` describes a model
    workers: int = 2
    options: tuple[str, ...] = ()
    config: str = ""

    def __str__(self) -> str:
        more = [word for word, on in (("keys", self.keys), ("TLS", self.tls)) if on]
        return " ".join([self.form, *more])


SERVED = Stage()
KEYED = Stage(keys=True)
ENCRYPTED = Stage(keys=True, tls=True)
SPEAKS_GRPC = Stage(keys=True, options=("--grpc-port", "0"))
INSTALLED = Stage("up", keys=True)
