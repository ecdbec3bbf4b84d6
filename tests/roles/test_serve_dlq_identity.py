"""A dead letter that is sent again is still its tenant's, and of the tier that its tenant had."""

import asyncio
import time
from pathlib import Path

from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from server import running

FUNCTION = "def batchstring(inputs):\n    raise ValueError\n"


def test_a_letter_that_is_sent_again_keeps_its_tenant_and_tier(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FUNCTION)
    key, record = make_key("acme", "free", time.time())
    asyncio.run(KeysFile(tmp_path / "keys.json").add(record))
    config = f'[auth]\nmode = "keys"\nkeys_file = "{tmp_path}/keys.json"\n[retries]\nattempts = 1\n'
    with running(f"{tmp_path / 'app.py'}:batchstring", config=config) as server:
        known = {"x-api-key": key, "x-request-id": "dies"}
        assert server.post("/v1/inference", {"input": "a"}, known).status == 502
        [letter] = server.admin("/internal/dlq").json()
        assert server.admin(f"/internal/dlq/{letter['id']}/retry", "POST").status == 202
        result = server.get("/v1/result/dies?wait_ms=20000", {"x-api-key": key})
        assert result.json()["status"] == "FAILED"
        [again] = server.admin("/internal/dlq").json()
        assert (again["tenant"], again["tier"]) == (letter["tenant"], letter["tier"]) == ("acme", 2)
