#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.aio beside redis.asyncio of redis-py with hiredis, in one event loop of asyncio.

Usage: aio_bench.py [BUILD] [ROUNDS]

As kv_bench.py: in turns, the median of the rounds, of a round the
quickest of twenty batches for each side. One call after the other is by the Unix socket, as there; a hundred
at once are as many awaitables in one asyncio.gather(), over TCP on both sides. Needs scripts/setup bars, and
`ninja -C BUILD refract_python refractd`.
"""

import asyncio
import os
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sides import ROUNDS, Figures, Node, RedisServer  # noqa: E402

import refract.aio  # noqa: E402
from redis import asyncio as redis_aio  # noqa: E402

VALUE = b"v" * 64
KEYS = [f"key:{number}" for number in range(100)]
BATCHES = 20
AT_ONCE = KEYS[:100]


async def us_of(call, calls):
    """Of an awaited call, in the quickest of some batches, since others use the machine, too."""
    number, best = max(1, calls // BATCHES), float("inf")
    for _ in range(BATCHES):
        begun = time.perf_counter()
        for _ in range(number):
            await call()
        best = min(best, time.perf_counter() - begun)
    return best / number * 1e6


def all_at_once(client):
    return lambda: asyncio.gather(*(client.get(key) for key in AT_ONCE))


async def measure(figures, near, far, other, far_other):
    figures.take("get", await us_of(lambda: near.get("key"), 20_000))
    figures.take("redis get", await us_of(lambda: other.get("key"), 1_000))
    figures.take("put", await us_of(lambda: near.put("key", VALUE), 4_000))
    figures.take("redis put", await us_of(lambda: other.set("key", VALUE), 1_000))
    figures.take("100", await us_of(all_at_once(far), 100))
    figures.take("redis 100", await us_of(all_at_once(far_other), 40))
    figures.take("100 near", await us_of(all_at_once(near), 100))
    figures.take("far get", await us_of(lambda: far.get("key"), 1_000))
    figures.take("redis far get", await us_of(lambda: far_other.get("key"), 1_000))
    figures.take("get_many", await us_of(lambda: far.get_many(AT_ONCE), 100))
    figures.take("redis get_many", await us_of(lambda: far_other.mget(AT_ONCE), 100))


def verdict(ratio, bar):
    return f"{bar:g} times: {'kept' if ratio >= bar else 'missed'}"


def tell(figures):
    def pair(what, name, bar=None):
        other = figures.median(f"redis {name.split()[0]}" if name == "100 near" else f"redis {name}")
        ratio = other / figures.median(name)
        figures.line(what, figures.median(name), "us", ratio, verdict(ratio, bar) if bar else "none")
        if name != "100 near":
            figures.line("  redis.asyncio", other, "us")

    pair("get of 64 B, shm", "get", 20)
    pair("put of 64 B, shm", "put")
    pair("100 gets at once, tcp", "100", 3)
    pair("100 gets at once, shm", "100 near")
    pair("get of 64 B, tcp", "far get")
    pair("get_many of 100, tcp", "get_many")


async def compare(node, server, port):
    other = redis_aio.Redis(unix_socket_path=server.socket)
    far_other = redis_aio.Redis(host="127.0.0.1", port=port)
    async with (await refract.aio.connect(node.socket) as near,
                await refract.aio.connect(f"refract://{node.tcp_address}?transport=tcp") as far):
        await near.put_many({key: VALUE for key in [*KEYS, "key"]})
        await other.mset({key: VALUE for key in [*KEYS, "key"]})
        figures = Figures()
        for _ in range(ROUNDS):
            await measure(figures, near, far, other, far_other)
        tell(figures)
    await other.close()
    await far_other.close()


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (tempfile.TemporaryDirectory(prefix="refract-bench-") as folder,
          Node("--memory-limit", "256MiB", "--listen-address", "127.0.0.1:0") as node):
        server = RedisServer(folder, port)
        with server:
            asyncio.run(compare(node, server, port))


if __name__ == "__main__":
    sys.exit(main())
