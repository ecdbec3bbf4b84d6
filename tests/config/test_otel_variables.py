"""OpenTelemetry's own variables set [tracing], and are looked at only if traces go somewhere."""

from pathlib import Path

import pytest

from penstock.config import Config, Tracing, load
from penstock.errors import UserMistake

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def tracing(environ: dict[str, str], text: str = "", tmp_path: Path | None = None) -> Tracing:
    return config(environ, text, tmp_path).tracing


def config(environ: dict[str, str], text: str = "", tmp_path: Path | None = None) -> Config:
    file = None
    if tmp_path is not None:
        file = tmp_path / "penstock.toml"
        file.write_text(text)
    return load(file, environ, {})


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({}, ""),
        (HERE, "http://collector:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/otlp/"}, "http://c:4318/otlp/v1/traces"),
        ({**HERE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:1/x"}, "http://t:1/x"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:1"}, "http://t:1/"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "http://127.0.0.1:4318/v1/traces"),
        ({"OTEL_TRACES_EXPORTER": "otlp,console", **HERE}, "http://collector:4318/v1/traces"),
        ({**HERE, "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({**HERE, "OTEL_SDK_DISABLED": "TRUE"}, ""),
        ({**HERE, "OTEL_SDK_DISABLED": "false"}, "http://collector:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, ""),
        ({**HERE, "PENSTOCK_TRACING_ENDPOINT": "http://ours:1"}, "http://ours:1"),
    ],
)
def test_where_traces_go(environ: dict[str, str], endpoint: str) -> None:
    assert tracing(environ).endpoint == endpoint


def test_every_usual_variable_has_its_place() -> None:
    said = tracing(
        {
            **HERE,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc, x-team = 1",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "own.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY": "own.key",
            "OTEL_SERVICE_NAME": "ours",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs,deployment.environment.name=a%2Cb",
            "OTEL_TRACES_SAMPLER": "traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.25",
            "OTEL_BSP_MAX_QUEUE_SIZE": "4096",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "64",
            "OTEL_BSP_SCHEDULE_DELAY": "5000",
            "OTEL_SPAN_LINK_COUNT_LIMIT": "32",
        }
    )
    assert said == Tracing(
        endpoint="http://collector:4318/v1/traces", headers={"authorization": "Bearer abc", "x-team": "1"},
        sampler="traceidratio", ratio=0.25, service="ours",
        attributes={"deployment.environment.name": "a,b"}, timeout=2.5, compression="gzip", delay=5.0,
        together=64, max_queue=4096, max_links=32, ca_file="ca.pem", client_certificate="own.pem",
        client_key="own.key",
    )  # fmt: skip
    assert tracing({**HERE, "OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs"}).service == "theirs"
    assert (
        tracing({**HERE, "OTEL_TRACES_SAMPLER": "parentbased_always_off"}).sampler == "parentbased_always_off"
    )


def test_a_sampler_of_the_environment_does_not_take_the_ratio_of_the_file(tmp_path: Path) -> None:
    said = tracing({"OTEL_TRACES_SAMPLER": "traceidratio"}, f"[tracing]\nratio = 0.1\n{TO}", tmp_path)
    assert (said.sampler, said.ratio) == ("traceidratio", 1.0)


TO = 'endpoint = "http://c:4318"\n'


def test_they_go_before_the_file_and_ours_go_before_them(tmp_path: Path) -> None:
    text = f'[tracing]\n{TO}service = "file"\ncompression = "gzip"\n'
    environ = {"OTEL_SERVICE_NAME": "theirs", "PENSTOCK_TRACING_COMPRESSION": "none"}
    found = config({**environ, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}, text, tmp_path)
    assert (found.tracing.service, found.tracing.compression) == ("theirs", "none")
    assert found.source("tracing.service") == "OTEL_SERVICE_NAME"
    assert found.source("tracing.compression") == "PENSTOCK_TRACING_COMPRESSION"
    assert config({"OTEL_SDK_DISABLED": "true"}, text, tmp_path).tracing.endpoint == ""


def test_variables_meant_for_other_programs_do_not_keep_a_server_without_traces_from_starting() -> None:
    others = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "jaeger_remote"}
    assert config({**others, "OTEL_EXPORTER_OTLP_HEADERS": "no"}) == Config()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: traces are sent as http/protobuf, and not as grpc: set it to"
            " http/protobuf, and the endpoint to the receiver's port for HTTP, which is 4318 with most",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: traces are sent as http/protobuf, and not as http/json: set it"
            " to http/protobuf, and the endpoint to the receiver's port for HTTP, which is 4318 with most",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER: traces are sent to an otlp exporter or to none, and not to zipkin",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
            'OTEL_TRACES_SAMPLER: tracing.sampler must be one of "always_on", "always_off", "traceidratio",'
            ' "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio", not "jaeger_remote"',
        ),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
            'OTEL_TRACES_SAMPLER_ARG: tracing.ratio must be a number from 0 to 1, not "2"',
        ),
        (
            {"OTEL_EXPORTER_OTLP_TIMEOUT": "2s"},
            "OTEL_EXPORTER_OTLP_TIMEOUT: must be a whole number of milliseconds, not 2s",
        ),
        (
            {"OTEL_EXPORTER_OTLP_HEADERS": "hush"},
            "OTEL_EXPORTER_OTLP_HEADERS: must be written as name=value,other=value",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: tracing.endpoint must be a URL such as http://127.0.0.1:4318",
        ),
    ],
)
def test_a_mistake_is_told_with_its_variable(environ: dict[str, str], said: str) -> None:
    with pytest.raises(UserMistake) as told:
        config({**HERE, **environ})
    assert told.value.message == said
