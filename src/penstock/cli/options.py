"""Options that several commands have, each described once."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

Target = Annotated[
    str | None,
    typer.Argument(
        show_default=False,
        help="What runs a batch: app.py:function, app.py:Class, package.module:function, http://host/path,"
        " grpc://host:port/model or sim:100ms.",
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
AdminPort = Annotated[
    int | None, typer.Option(show_default="9000", help="Probes and metrics; 0: any free one.")
]
LogLevel = Annotated[str | None, typer.Option(show_default="info", help="debug, info, warning, error.")]
LogFormat = Annotated[str | None, typer.Option(show_default="auto", help="auto, json or text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Host = Annotated[str | None, typer.Option(show_default="127.0.0.1", help="Where clients connect.")]
Port = Annotated[int | None, typer.Option("--port", "-p", show_default="8000", help="0: any free one.")]
Auth = Annotated[
    str | None,
    typer.Option(show_default="none on loopback", help="Who may ask: none, keys, jwt or keys+jwt."),
]
AllowAnonymous = Annotated[
    bool | None,
    typer.Option("--allow-anonymous", help="With --auth none: let anybody ask, from wherever."),
]
TlsCert = Annotated[
    str | None,
    typer.Option(
        "--tls-cert", show_default=False, help="Serve with TLS: a certificate and its chain, in PEM."
    ),
]
TlsKey = Annotated[
    str | None,
    typer.Option("--tls-key", show_default="in --tls-cert", help="Its private key, in PEM."),
]
TlsClientCa = Annotated[
    str | None,
    typer.Option(
        "--tls-client-ca", show_default=False, help="Serve only clients with a certificate that it signed."
    ),
]
MaxBatch = Annotated[
    int | None,
    typer.Option("--max-batch", "-b", show_default="64", help="Requests in one batch at most."),
]
MaxWait = Annotated[
    str | None, typer.Option(show_default="50ms", help="Longest wait for company while a worker is free.")
]
Policy = Annotated[
    str | None, typer.Option(show_default="paced", help="paced, window, ewma, table or greedy.")
]
Input = Annotated[
    str | None,
    typer.Option("--input", show_default="auto", help="auto or json: any JSON value; text: only text."),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", show_default="auto", help="auto or json: whatever the model gives; text: only text."
    ),
]
Gpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        show_default=False,
        help="GPUs such as 0,1,2: a worker for each, which sees that one alone (CUDA_VISIBLE_DEVICES).",
    ),
]
WarmUp = Annotated[
    list[str] | None,
    typer.Option(
        "--warmup",
        metavar="INPUT",
        show_default=False,
        help="An input to run before serving; may be given several times. One in { } or [ ] is JSON.",
    ),
]
ProcessingTimeout = Annotated[
    str | None, typer.Option(show_default="3s", help="A batch that takes longer is given up.")
]
RequestTimeout = Annotated[str | None, typer.Option(show_default="4s", help="Answered by then, or 504.")]
ModelName = Annotated[
    str | None, typer.Option("--model", show_default=False, help="The model that these options mean.")
]


def warm_up_inputs(given: list[str] | None) -> list[object] | None:
    """Texts, but for those that are JSON objects or lists."""
    return [_warm_up_input(text) for text in given] if given else None


def _warm_up_input(text: str) -> object:
    if text.startswith(("{", "[")):
        with suppress(ValueError):
            value: object = json.loads(text)
            return value
    return text
