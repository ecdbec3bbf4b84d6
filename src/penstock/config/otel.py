"""OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, as settings of [tracing]. `load` lays them
over the file, and below PENSTOCK_TRACING_….

Other programs on the machine read the same variables. So they are looked at only if traces go somewhere: because
one of the variables says so, or a setting of ours.
"""

from collections.abc import Mapping
from urllib.parse import unquote

from penstock.config.layers import Given, Tree
from penstock.errors import UserMistake

DEFAULT_ENDPOINT = "http://127.0.0.1:4318"  # where OTEL_TRACES_EXPORTER=otlp alone sends them
FOR_TRACES, FOR_ALL = "OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"
PATH = "/v1/traces"

# By key of [tracing]: the variable that it is taken from.
_PLAIN = {
    "sampler": "OTEL_TRACES_SAMPLER",
    "service": "OTEL_SERVICE_NAME",
}
_NUMBERS = {
    "max_queue": "OTEL_BSP_MAX_QUEUE_SIZE",
    "together": "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "max_links": "OTEL_SPAN_LINK_COUNT_LIMIT",
}
# By key of [tracing]: the end of the variable's name.
_EXPORTER = {
    "compression": "COMPRESSION",
    "ca_file": "CERTIFICATE",
    "client_certificate": "CLIENT_CERTIFICATE",
    "client_key": "CLIENT_KEY",
}


def lay_otel(tree: Tree, environ: Mapping[str, str], *, traces: bool) -> None:
    """Lay the variables over the tree. `traces`: whether a setting of ours outside the file says where traces
    go."""
    said = {name: value.strip() for name, value in environ.items() if name.startswith("OTEL_")}
    said = {name: value for name, value in said.items() if value}  # an empty one counts as not set
    tracing: Tree = tree.setdefault("tracing", {})
    for name, off in (("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")):
        if said.get(name, "").lower() == off:
            tracing["endpoint"] = Given("", name)
            return
    endpoint = _endpoint(said)
    if endpoint is not None:
        tracing["endpoint"] = endpoint
    elif not traces and not ("endpoint" in tracing and tracing["endpoint"].value):
        return
    _check_exporter(said)
    for key, name in _PLAIN.items():
        if name in said:
            tracing[key] = Given(said[name], name)
    for key, name in _NUMBERS.items():
        if name in said:
            tracing[key] = Given(said[name], name, as_text=True)
    for key, rest in _EXPORTER.items():
        name, value = _of(said, rest)
        if value:
            tracing[key] = Given(value, name)
    _lay_others(tracing, said)


def _endpoint(said: Mapping[str, str]) -> Given | None:
    """Returns where traces go; None if no variable says so. The variable for traces alone is the whole address; to
    the other one a path is added."""
    name = f"{FOR_TRACES}ENDPOINT"
    if name in said:
        whole = said[name]
        return Given(f"{whole}/" if whole.count("/") == 2 else whole, name)
    name = f"{FOR_ALL}ENDPOINT"
    if name in said:
        return Given(said[name].rstrip("/") + PATH, name)
    if "otlp" in _exporters(said):
        return Given(DEFAULT_ENDPOINT + PATH, "OTEL_TRACES_EXPORTER")
    return None


def _exporters(said: Mapping[str, str]) -> list[str]:
    return [each.strip() for each in said.get("OTEL_TRACES_EXPORTER", "").split(",")]


def _check_exporter(said: Mapping[str, str]) -> None:
    """Raises UserMistake if traces should go out in a way that we do not know."""
    name, protocol = _of(said, "PROTOCOL")
    if protocol not in ("", "http/protobuf"):
        raise UserMistake(
            f"{name}: traces are sent as http/protobuf, and not as {protocol}: set it to http/protobuf, and the"
            " endpoint to the receiver's port for HTTP, which is 4318 with most"
        )
    exporters = _exporters(said)
    if exporters != [""] and "otlp" not in exporters:
        raise UserMistake(
            f"OTEL_TRACES_EXPORTER: traces are sent to an otlp exporter or to none, and not to"
            f" {said['OTEL_TRACES_EXPORTER']}"
        )


def _lay_others(tracing: Tree, said: Mapping[str, str]) -> None:
    """Lay the variables that are not written as our settings are."""
    name, value = _of(said, "TIMEOUT")
    if value:
        tracing["timeout"] = Given(_milliseconds(name, value), name)
    name = "OTEL_BSP_SCHEDULE_DELAY"
    if name in said:
        tracing["delay"] = Given(_milliseconds(name, said[name]), name)
    name, value = _of(said, "HEADERS")
    if value:
        tracing["headers"] = Given(_pairs(name, value), name)
    name = "OTEL_TRACES_SAMPLER_ARG"
    if name in said and said.get("OTEL_TRACES_SAMPLER", "").endswith("traceidratio"):
        tracing["ratio"] = Given(said[name], name, as_text=True)
    elif said.get("OTEL_TRACES_SAMPLER", "").endswith("traceidratio"):
        tracing["ratio"] = Given(1.0, "OTEL_TRACES_SAMPLER")
    name = "OTEL_RESOURCE_ATTRIBUTES"
    if name in said:
        labels = _pairs(name, said[name])
        service = labels.pop("service.name", "")
        if service and "OTEL_SERVICE_NAME" not in said:
            tracing["service"] = Given(service, name)
        tracing["attributes"] = Given(labels, name)


def _of(said: Mapping[str, str], rest: str) -> tuple[str, str]:
    """Returns the name and the value of the variable for traces if it is set, else those of the one for all
    signals."""
    name = f"{FOR_TRACES}{rest}"
    if name not in said:
        name = f"{FOR_ALL}{rest}"
    return name, said.get(name, "")


def _milliseconds(name: str, value: str) -> str:
    if not value.isdecimal():
        raise UserMistake(f"{name}: must be a whole number of milliseconds, not {value}")
    return f"{value}ms"


def _pairs(name: str, value: str) -> dict[str, str]:
    """Reads `a=1,b=2`, with percent signs where a character would be in the way. A value may be a secret, so no
    message shows it."""
    found = {}
    for pair in value.split(","):
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise UserMistake(f"{name}: must be written as name=value,other=value")
        found[unquote(key.strip())] = unquote(text.strip())
    return found
