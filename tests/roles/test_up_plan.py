"""Which processes `penstock up` starts, and with which options."""

import pytest

from penstock.installation.plan import UpPlan


@pytest.mark.parametrize(("first", "ports"), [(None, []), (0, ["0", "0"]), (8001, ["8001", "8002"])])
def test_the_ports_for_grpc_count_up_from_the_first_gateway_s(first: int | None, ports: list[str]) -> None:
    parts = UpPlan(gateways=2, grpc_port=first).parts("redis://127.0.0.1")
    commands = [part.command for part in parts]
    found = [command[command.index("--grpc-port") + 1] for command in commands if "--grpc-port" in command]
    assert found == ports
    assert all(part.role == "gateway" for part in parts if "--grpc-port" in part.command)
