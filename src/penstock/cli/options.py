"""Options that several commands have, each described once, and functions that read texts such as 30s or 1..8 on the
command line. Most commands of this folder use one or the other; `groups.py` says what a group is.

Each attribute of a group is an option that sets one key of the configuration: its name, type, key and help. Every
command that takes the group has its options, and `penstock up` passes those of its own groups on to the processes
that it starts. The docstring of a group is its title in the help. The options above the groups stand alone: a
command has each as a parameter of its function, and says itself what it sets.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.groups import setting
from penstock.config.sections import POLICY_NAMES
from penstock.errors import UserMistake
from penstock.units import DURATION_HINT, MissingUnit, parse_duration

Target = Annotated[
    str | None,
    typer.Argument(
        show_default=False,
        help="What runs a batch: app.py:function, app.py:Class, package.module:function, http://host/path,"
        " openai://host/v1, tei://host, grpc://host:port/model, oip+http://host:port/model or sim:100ms.",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", show_default=False, help="penstock.toml is found by itself.")
]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis",
        show_default="redis://127.0.0.1:6379",
        help="redis://, rediss:// or redis+cluster://h:p,h:p.",
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", "-w", show_default="1", help="Batches that run at once.")
]
Slots = Annotated[
    int | None, typer.Option("--slots", "-s", show_default="1", help="Batches that run here at once.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No line of figures every few seconds on a terminal.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


class Listening:
    """Clients"""

    host = setting(str, "server.host", default="127.0.0.1", about="Where clients connect.")
    port = setting(int, "server.port", "--port", "-p", default="8000", about="0: any free one.")
    grpc_port = setting(
        int, "server.grpc_port", "--grpc-port", default="no gRPC", about="Serve gRPC too, usually on 8001."
    )


class Clients:
    """Clients"""

    auth = setting(
        str, "auth.mode", default="none on loopback", about="Who may ask: none, keys, jwt or keys+jwt."
    )
    allow_anonymous = setting(
        bool, "auth.allow_anonymous", "--allow-anonymous",
        about="With --auth none: let anybody ask, from wherever.",
    )  # fmt: skip
    record = setting(
        str, "trace.record", about="A file for arrival times and sizes, to replay and tune by; no payload."
    )
    files = setting(
        str, "files.directory", "--files", default="none are taken",
        about="A directory for the files of batches; without it there are no batches.",
    )  # fmt: skip
    tls_cert = setting(
        str, "tls.certificate", "--tls-cert", about="Serve with TLS: a certificate and its chain, in PEM."
    )
    tls_key = setting(str, "tls.key", "--tls-key", default="in --tls-cert", about="Its private key, in PEM.")
    tls_client_ca = setting(
        str, "tls.client_ca", "--tls-client-ca", about="Serve only clients with a certificate that it signed."
    )


def warm_up_inputs(given: list[str]) -> list[object]:
    """Returns warm-up inputs from the command line: one that begins with { or [ is read as JSON, any other is
    text."""
    return [_warm_up_input(text) for text in given]


def _warm_up_input(text: str) -> object:
    if text.startswith(("{", "[")):
        with suppress(ValueError):
            value: object = json.loads(text)
            return value
    return text


def _nothing(given: bool) -> bool:
    """Returns what `--no-warmup` sets `warmup` to: False, run nothing."""
    return not given


class ModelOptions:
    """The model"""

    gpus = setting(
        str,
        "model.gpus",
        about="GPUs such as 0,1,2, given to the workers in turn: each sees one (CUDA_VISIBLE_DEVICES).",
    )
    warmup = setting(
        list[str],
        "model.warmup",
        read=warm_up_inputs,
        about="An input to run before serving, in batches of each size; may be given several times. One in { } or"
        " [ ] is JSON.",
    )
    no_warmup = setting(
        bool, "model.warmup", "--no-warmup", read=_nothing, about="Run nothing before serving."
    )
    max_batch = setting(
        int, "model.max_batch", "--max-batch", "-b", default="64", about="Requests in one batch at most."
    )
    batch_sizes = setting(
        str,
        "model.batch_sizes",
        default="any",
        about="any, powers, or sizes such as 1,2,4,8: a batch of another size is padded to the next one.",
    )
    max_wait = setting(
        str, "model.max_wait", default="50ms", about="Longest wait for company while a worker is free."
    )
    policy = setting(str, "model.policy", default="paced", about=f"{', '.join(POLICY_NAMES)}.")
    input = setting(
        str, "model.input", "--input", default="auto", about="auto or json: any value; text: only text."
    )
    output = setting(
        str,
        "model.output",
        "--output",
        default="auto",
        about="auto or json: whatever it gives; text: only text.",
    )
    timeout = setting(
        str,
        "model.timeout",
        default="4s",
        about="Answered by then, or 504: 30s. The limits of the queue and of a batch follow from it.",
    )
    queue_timeout = setting(
        str, "model.queue_timeout", default="1/2 of --timeout", about="Longest wait until it is first sent."
    )
    processing_timeout = setting(
        str, "model.processing_timeout", default="3/4 of --timeout", about="Longest time a batch may run."
    )
    request_timeout = setting(
        str, "model.request_timeout", default="--timeout", about="Longest time from arrival to answer."
    )
    model = setting(str, "model.name", "--model", about="The model that these options mean.")


class Named:
    """This process"""

    name = setting(
        str, "redis.name", "--name", default="its role",
        about="What to call it in logs and lists; a few letters are added.",
    )  # fmt: skip
    zone = setting(
        str, "server.zone", default="none",
        about="Where it stands, such as eu-1a: batches stay in their zone while that can do them in time.",
    )  # fmt: skip


class Logs:
    """This process"""

    log_level = setting(str, "server.log_level", default="info", about="debug, info, warning, error.")


class Process:
    """This process"""

    log_format = setting(str, "server.log_format", default="auto", about="auto, json or text.")
    admin_port = setting(
        int, "server.admin_port", default="9000", about="Probes and metrics; 0: any free one."
    )


class Scaling:
    """How many workers"""

    rules = setting(
        str, "autoscaler.rules", default="predicted",
        about="predicted: by the arrivals; classic: by thresholds of the queue and of the load.",
    )  # fmt: skip


def seconds_of(text: str, option: str) -> float:
    """Returns the seconds of a duration on the command line. Raises UserMistake that says how to write one."""
    try:
        return parse_duration(text)
    except MissingUnit as error:
        raise UserMistake(f"{option}: {error}") from None
    except ValueError:
        raise UserMistake(f"{option} takes {DURATION_HINT}, not {text!r}") from None


def span_of(text: str, option: str) -> tuple[int, int]:
    """Returns the numbers of a span such as 1..8. Raises UserMistake that says how to write one."""
    least, dots, most = text.partition("..")
    if not (dots and least.isdecimal() and most.isdecimal() and int(least) <= int(most) and int(most) > 0):
        raise UserMistake(f"{option} takes a span of workers such as 1..8, not {text!r}")
    return int(least), int(most)


def scaling_span(autoscale: str | None) -> dict[str, object]:
    """Returns what --autoscale 1..8 sets, by key of the configuration."""
    if autoscale is None:
        return {}
    least, most = span_of(autoscale, "--autoscale")
    return {"autoscaler.minimum": least, "autoscaler.maximum": most}
