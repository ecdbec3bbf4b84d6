"""Chooses the backends of a model, by its target. `penstock serve` and `penstock worker` make the backends of their
slots by it (`model.py`, `worker.py`); `penstock check` and `penstock up` check targets with it (`targets.py`,
`up.py`). A new kind of backend is one more case here.
"""

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Literal

from penstock.adapters.backends.process import ProcessBackend
from penstock.adapters.backends.simulated import SimulatedBackend
from penstock.config import Model
from penstock.errors import UserMistake
from penstock.ports import Backend
from penstock.service_model import parse_service
from penstock.target import Target, parse_target

if TYPE_CHECKING:
    from penstock.adapters.backends.dialects.dialect import Dialect

MakeBackend = Callable[[int], Backend]  # makes the backend of the slot with this number


def backend_maker(name: str, model: Model, process: str = "") -> MakeBackend:
    """Returns the maker of a model's backends. The target is checked now, so that a mistake is found before
    anything is started.

    `process`: the name of the process that runs the backends, over Redis. A worker is then called
    PROCESS/MODEL/NUMBER, and otherwise MODEL/NUMBER.
    """
    called = f"{process}/{name}" if process else name
    target = parse_target(model.target)
    match target.kind:
        case "sim":
            service = parse_service(target.text)
            return lambda slot: SimulatedBackend(service, slot)
        case "http" | "openai" | "tei" | "oip":
            return _http_maker(target, model)
        case "grpc":
            return _grpc_maker(target.url, model)
        case "function":
            return lambda slot: ProcessBackend(
                target.text,
                input_kind=_kind(model.input),
                output_kind=_kind(model.output),
                per_item=model.parameters == "per_item",
                environment={"PENSTOCK_SLOT": str(slot), **_gpu(model, slot)},
                warms_up=model.warmup == (),
                start_timeout=model.start_timeout,
                memory_limit=model.memory_limit,
                name=f"{called}/{slot}",
            )


def _http_maker(target: Target, model: Model) -> MakeBackend:
    """Returns the maker for an HTTP endpoint. The HTTP client is imported only if it is used, because that takes
    longer than all the rest of a server."""
    from penstock.adapters.backends.endpoint_tls import EndpointTls
    from penstock.adapters.backends.http import HttpBackend, HttpShape

    described = asdict(model.http)
    tls = EndpointTls(**{item.name: described.pop(item.name) for item in fields(EndpointTls)})
    shape = HttpShape(**described)

    def make(slot: int) -> Backend:
        dialect = _dialect(target, model)
        return HttpBackend(
            getattr(dialect, "url", target.url),
            shape,
            dialect,
            output_kind=_kind(model.output),
            start_timeout=model.start_timeout,
            tls=tls,
        )

    make(0)  # raises UserMistake now, and not only when a slot is made
    return make


def _dialect(target: Target, model: Model) -> "Dialect | None":
    """Returns what to say to an endpoint of a kind that is known."""
    match target.kind:
        case "openai":
            from penstock.adapters.backends.dialects.openai import OpenAI

            return OpenAI(target.url, model.output)
        case "tei":
            from penstock.adapters.backends.dialects.tei import Tei

            return Tei(target.url)
        case "oip":
            from penstock.adapters.backends.dialects.open_inference import OpenInference

            return OpenInference(target.url, _kind(model.output), text=model.input_kind == "text")
        case _:
            return None


def _grpc_maker(url: str, model: Model) -> MakeBackend:
    """Returns the maker for a gRPC endpoint. gRPC is imported only if it is used: it is an extra, and slow to
    import."""
    try:
        from penstock.adapters.backends.grpc import GrpcBackend
        from penstock.adapters.backends.oip.settings import GrpcSettings
    except ImportError:
        raise UserMistake("a gRPC endpoint needs the grpc extra: pip install 'penstock[grpc]'") from None
    settings = GrpcSettings(**asdict(model.grpc))
    return lambda slot: GrpcBackend(
        url,
        settings,
        input_kind="text" if model.input_kind == "text" else "json",
        output_kind=_kind(model.output),
        start_timeout=model.start_timeout,
    )


def _kind(kind: str) -> Literal["auto", "text", "json"]:
    """Returns a model's `input` or `output` as backends know it: any other kind is `auto`."""
    return "json" if kind == "json" else "text" if kind == "text" else "auto"


def _gpu(model: Model, slot: int) -> dict[str, str]:
    """Returns the environment that shows a slot its GPU. If GPUs are named, slots get one each, in turn."""
    return {"CUDA_VISIBLE_DEVICES": model.gpus[slot % len(model.gpus)]} if model.gpus else {}
