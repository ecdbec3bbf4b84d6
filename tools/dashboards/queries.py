"""Expressions of Prometheus that several dashboards need. The boards of this folder put them into their panels."""

from collections.abc import Iterable

from tools.dashboards.grafana import Query

JOB = 'job=~"$job"'
MODEL = 'job=~"$job", model=~"$model"'


def rate(metric: str, by: str = "", where: str = MODEL) -> str:
    """Returns how fast a counter grows, of all processes together. `by`: labels that are kept apart."""
    return f"sum{_by(by)} (rate({metric}{{{where}}}[$__rate_interval]))"


def total(metric: str, by: str = "", where: str = MODEL) -> str:
    """Returns the sum of a gauge over all processes."""
    return f"sum{_by(by)} ({metric}{{{where}}})"


def most(metric: str, by: str = "", where: str = MODEL) -> str:
    """Returns the largest value of a gauge, for what several processes say of the same thing."""
    return f"max{_by(by)} ({metric}{{{where}}})"


def quantile(share: float, metric: str, by: str = "", where: str = MODEL) -> str:
    """Returns a quantile of a histogram, of all processes together."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share:g}, {rate(f'{metric}_bucket', labels, where)})"


def quantiles(
    metric: str, shares: Iterable[float] = (0.5, 0.95, 0.99), *, exemplars: bool = False
) -> list[Query]:
    """Returns several quantiles of a histogram. `exemplars`: whether traces are shown beside the highest."""
    return [
        Query(quantile(share, metric), f"p{100 * share:g}", exemplars=exemplars and share == max(shares))
        for share in shares
    ]


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""


REFUSED = 'model=~"$model|"'  # also requests whose model is not known
ALL_REQUESTS = f"({rate('penstock_requests_total')} + {rate('penstock_refused_requests_total')})"
LATENCY = "penstock_request_latency_seconds"
SERVING = total("penstock_workers", where=f'{MODEL}, state=~"idle|busy"')
EXPECTED = total("penstock_workers_expected")
QUEUE_BY_NUMBER = f"{total('penstock_queue_depth', 'model')} / {total('penstock_queue_limit', 'model')}"
QUEUE_BY_TIME = (
    f"{most('penstock_expected_wait_seconds', 'model')}"
    f" / on (model) min by (model) (penstock_queue_timeout_seconds{{{MODEL}}})"
)
