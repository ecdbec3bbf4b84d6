"""Checks that look at several settings together. `load` has contradictions refused when all sections are built, and
`changes` when a server would take over other settings. `penstock check` and the commands of servers report doubts:
settings that are allowed, and probably not meant. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_network
from urllib.parse import urlsplit

from penstock.config.config import DEFAULT, Config
from penstock.config.schema import did_you_mean
from penstock.config.sections import SUM, Autoscaler, GrpcEndpoint, HttpEndpoint, Model, Webhooks
from penstock.config.time_limits import PARTS, decide
from penstock.config.toml import dotted, toml
from penstock.errors import UserMistake
from penstock.units import write_duration, write_size

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")  # a name that goes into URLs and metrics
_EVERYWHERE = ("0.0.0.0", "::", "")
LEAST_RECORD = 64 * 1024  # bytes
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def refuse_contradictions(config: Config) -> None:
    """Raises UserMistake for the first contradiction."""
    for key, complaint in _contradictions(config):
        source = config.source(key)
        raise UserMistake(f"{key if source == 'default' else f'{source}: {key}'} {complaint}")


def _contradictions(config: Config) -> Iterator[tuple[str, str]]:
    server, retries = config.server, config.retries
    shared_host = server.host == server.admin_host or {server.host, server.admin_host} & set(_EVERYWHERE)
    if server.port and server.port == server.admin_port and shared_host:
        yield "server.admin_port", f"must differ from server.port, which is {server.port} too"
    if server.grpc_port:
        for name in ("port", "admin_port"):
            if getattr(server, name) == server.grpc_port and (name == "port" or shared_host):
                yield "server.grpc_port", f"must differ from server.{name}, which is {server.grpc_port} too"
    if server.grpc_port is not None and config.tls.certificate and not config.tls.http2:
        yield "tls.http2", "must be true where there is a server.grpc_port: gRPC is HTTP/2"
    if retries.base > retries.max:
        yield "retries.base", f"must not be above retries.max, {write_duration(retries.max)}"
    for name in ("key", "client_ca", "admin"):
        if getattr(config.tls, name) and not config.tls.certificate:
            yield f"tls.{name}", "is of no use without tls.certificate"
    if config.redis.name and not _PLAIN_NAME.fullmatch(config.redis.name):
        yield "redis.name", "may have letters, digits, '.', '_' and '-' only, at most 128 of them"
    if config.trace.limit < LEAST_RECORD:
        yield (
            "trace.limit",
            f"must be at least {write_size(LEAST_RECORD)}: less would hold hardly any requests",
        )
    if config.tracing.endpoint and not is_http_url(config.tracing.endpoint):
        yield "tracing.endpoint", "must be a URL such as http://127.0.0.1:4318"
    yield from _scaling_contradictions(config.autoscaler)
    yield from _webhook_contradictions(config.webhooks)
    yield from _tier_contradictions(config)
    marked = [name for name, model in config.models.items() if model.default]
    for name in marked[1:]:
        yield (
            dotted(("models", name, "default")),
            f"is true, and models.{marked[0]}.default is true as well: mark one model only",
        )
    for name, model in config.models.items():
        yield from _model_contradictions(name, model)


def _webhook_contradictions(webhooks: Webhooks) -> Iterator[tuple[str, str]]:
    if webhooks.allow and not webhooks.secret:
        yield "webhooks.secret", "is needed: whoever is called must be able to tell us from others"
    if webhooks.base > webhooks.max:
        yield "webhooks.base", f"must not be above webhooks.max, {write_duration(webhooks.max)}"
    for network in webhooks.private:
        try:
            ip_network(network)
        except ValueError:
            yield "webhooks.private", f"has '{network}', which is no network such as 10.0.0.0/8"


def is_http_url(text: str) -> bool:
    """Returns whether a text is a URL of http or https with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        return False


def _scaling_contradictions(scaling: Autoscaler) -> Iterator[tuple[str, str]]:
    if scaling.minimum > scaling.maximum:
        yield "autoscaler.minimum", f"must not be above autoscaler.maximum, {scaling.maximum}"
    if scaling.fast > scaling.slow:
        yield "autoscaler.fast", f"must not be above autoscaler.slow, {write_duration(scaling.slow)}"
    if scaling.act == "kubernetes" and not scaling.deployment:
        yield "autoscaler.act", "is kubernetes: name the workers' Deployment in autoscaler.deployment"
    if scaling.act == "command" and "{workers}" not in scaling.command:
        yield "autoscaler.command", 'must say where the number of workers goes: "my-scale workers {workers}"'


def _tier_contradictions(config: Config) -> Iterator[tuple[str, str]]:
    levels = config.tiers.levels
    ranks = Counter(level.rank for level in levels.values())
    for name, level in levels.items():
        if ranks[level.rank] > 1:
            yield dotted(("tiers", "levels", name, "rank")), f"is {level.rank}, and so is another tier's"
    if config.tiers.warning > config.tiers.critical:
        yield "tiers.warning", f"must not be above tiers.critical, {config.tiers.critical:g}"
    named = [("tiers.default", config.tiers.default)]
    named += [
        (dotted(("tenants", name, "tier")), tenant.tier)
        for name, tenant in config.tenants.items()
        if tenant.tier
    ]
    for key, tier in named:
        if tier not in levels:
            tiers = ", ".join(levels) or "none"
            yield key, f"is '{tier}', which is not a tier ({tiers}){did_you_mean(tier, levels)}"


def _model_contradictions(name: str, model: Model) -> Iterator[tuple[str, str]]:
    if not _PLAIN_NAME.fullmatch(name):
        yield dotted(("models", name)), "needs a name of letters, digits, '.', '_' and '-', at most 128"
    if model.reserve >= model.workers:
        key = dotted(("models", name, "reserve"))
        yield (
            key,
            f"must be below the number of workers, {model.workers}, or nothing but full batches would run",
        )
    if isinstance(model.batch_sizes, tuple) and model.batch_sizes[-1] > model.max_batch:
        yield (
            dotted(("models", name, "batch_sizes")),
            f"goes up to {model.batch_sizes[-1]}, and {dotted(('models', name, 'max_batch'))} is"
            f" {model.max_batch}: raise max_batch, or leave the larger sizes out",
        )
    if model.input_kind == "text" and not all(isinstance(item, str) for item in model.warmup or ()):
        yield (
            dotted(("models", name, "warmup")),
            'must be a text or a list of texts: this model takes text, and other values with input = "json"',
        )
    if model.protocol and not model.is_described and model.parameters == "per_item":
        yield (
            dotted(("models", name, "parameters")),
            "must be shared: a call to such an endpoint has one set for all inputs",
        )


def doubts(config: Config, *, over_redis: bool = False) -> list[str]:
    """Returns a line for each setting that is allowed and probably not meant.

    `over_redis`: Redis is used for certain. Otherwise doubts about Redis are told if the configuration names it.
    """
    over_redis = over_redis or any(key.startswith("redis.") for key in config.sources)
    found = [*_common_doubts(config)]
    for name, model in config.models.items():
        found += [*_model_doubts(config, name, model), *_time_doubts(config, name, over_redis=over_redis)]
    return list(dict.fromkeys(found))  # a doubt about several models is told once


def _common_doubts(config: Config) -> Iterator[str]:
    if not config.models:
        yield "no model: add a [models.NAME] section, or give `penstock serve` a TARGET"
    if config.server.admin_host not in _LOOPBACK:
        host = toml(config.server.admin_host)
        yield f"server.admin_host is {host}: whoever can reach it can administer the server"
    if config.server.host not in _LOOPBACK and not config.tls.certificate:
        host = toml(config.server.host)
        yield (
            f"server.host is {host} and there is no tls.certificate: keys and inputs cross the network as they are,"
            " unless a proxy in front ends TLS"
        )
    if "*" in config.server.cors_origins and config.auth.mode in ("auto", "none"):
        yield (
            'server.cors_origins is "*" and nobody is asked who they are: every web page that is open in a browser'
            " which can reach this server can use it"
        )


def _time_doubts(config: Config, name: str, *, over_redis: bool) -> Iterator[str]:
    """Yields doubts about settings that leave a request no time for a second worker when its first one hangs or
    dies."""
    limits = config.timeouts_of(name)
    queue, processing, request = (_said(config, name, limit) for limit in PARTS)
    requests = {request: limits.request}
    for tier, level in config.tiers.levels.items():
        if level.request_timeout is not None:
            key = dotted(("tiers", "levels", tier, "request_timeout"))
            requests[f"{key} ({write_duration(level.request_timeout)})"] = level.request_timeout
    for said, seconds in requests.items():
        if limits.processing >= seconds:
            yield (
                f"{processing} is not shorter than {said}:"
                " when a batch hangs, no time is left to try its requests again"
            )
    if limits.queue >= limits.request:
        yield (
            f"{queue} is not shorter than {request}:"
            " a request may be sent to a worker when no time is left to run it"
        )
    lease, longest = config.redis.lease, config.retries.max
    if over_redis and lease + longest >= limits.request:
        yield (
            f"redis.lease ({write_duration(lease)}) and retries.max ({write_duration(longest)}) together are not"
            f" shorter than {request}: when a machine dies, no time is left to try its requests again"
        )


def _said(config: Config, name: str, limit: str) -> str:
    """Returns a time limit as a doubt names it: the key that sets it, and its value; or the key that it follows."""
    seconds, key = decide(config.timeouts, config.models, name, limit)
    if key.endswith((f".{limit}", f".{limit}_timeout")):
        return f"{key} ({write_duration(seconds)})"
    return f"timeouts.{limit} ({write_duration(seconds)}, follows {key})"


def _model_doubts(config: Config, name: str, model: Model) -> Iterator[str]:
    prefix = dotted(("models", name))
    timeouts = config.timeouts_of(name)
    patience = min(timeouts.queue, timeouts.request)
    if model.max_wait >= patience:
        yield (
            f"{prefix}.max_wait is {write_duration(model.max_wait)} and a request waits at most"
            f" {write_duration(patience)}: requests may expire before their batch goes"
        )
    if model.max_batch > config.limits.max_queue:
        yield f"{prefix}.max_batch is above limits.max_queue, {config.limits.max_queue}: no batch can be full"
    sizes, chosen = model.batch_sizes, config.source(f"{prefix}.max_batch") != DEFAULT
    if isinstance(sizes, tuple) and sizes[-1] < model.max_batch and chosen:
        yield (
            f"{prefix}.max_batch is {model.max_batch}, but no batch is larger than the largest of"
            f" {prefix}.batch_sizes, {sizes[-1]}"
        )
    if len(model.gpus) > model.workers:
        yield f"{prefix}.gpus lists {len(model.gpus)} GPUs for {model.workers} workers: some stay idle"
    if model.batch_cost != SUM and model.max_cost is None:
        yield f"{prefix}.batch_cost is set, but {prefix}.max_cost is not: it has no effect"
    if not model.deterministic and model.cache != "tenant":
        yield f"{prefix}.cache is set, but the model is not said to be deterministic: it has no effect"
    if model.protocol != "http" and model.http != HttpEndpoint():
        yield f"{prefix}.http is set, but the target is not a URL: it has no effect"
    if model.protocol == "http" and not model.is_described:
        plain, scheme = HttpEndpoint(), model.target.partition("://")[0]
        for key in ("method", "request", "outputs", "item", "version", "pressure", "health"):
            if getattr(model.http, key) != getattr(plain, key):
                yield f"{prefix}.http.{key} is set, but {scheme}:// says what is sent: it has no effect"
    if model.protocol != "grpc" and model.grpc != GrpcEndpoint():
        yield f"{prefix}.grpc is set, but the target is not a grpc:// URL: it has no effect"
