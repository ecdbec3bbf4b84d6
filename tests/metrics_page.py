"""A metrics page as tests read it, by the parser of Prometheus' own Python client, which has no types."""

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser


def read_openmetrics(text: str) -> list[Metric]:
    return list(parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
