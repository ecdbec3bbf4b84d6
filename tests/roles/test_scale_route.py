"""What `/internal/scale` answers, to KEDA and to you."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import json
from starlette.requests import Request

from penstock.admin.app import scale_route


def asked(said: Mapping[str, Any] | None) -> tuple[int, Any]:
    request = Request({"type": "http", "method": "GET", "path": "/internal/scale", "headers": []})
    answer = asyncio.run(scale_route(lambda: said).endpoint(request))
    return answer.status_code, json.decode(answer.body)


def test_the_number_is_told_once_an_autoscaler_leads() -> None:
    assert asked({"workers": 3}) == (200, {"workers": 3})
    status, said = asked(None)
    assert (status, said["message"]) == (503, "no autoscaler leads yet")
