#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.Client beside redis-py with hiredis over a Unix socket, and beside our own C++ client.

Usage: kv_bench.py [BUILD] [ROUNDS]

All sides are measured in turns, round for round, in one run; what is printed is the median of the rounds, and
the ratio of the medians with its bar. Of a round the quickest of twenty batches counts, for each side. Needs
scripts/setup bars, and `ninja -C BUILD refract_python own_calls refractd`.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sides import BUILD, MIB, ROUNDS, Figures, Node, RedisServer, us_of  # noqa: E402

import refract  # noqa: E402

VALUE = b"v" * 64
KEYS = [f"key:{number}" for number in range(1_000)]


def turns_of(seconds):
    """How far a thread that computes comes in this time."""
    end, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        turns += 1
    return turns


def measure(figures, client, other, node):
    said = subprocess.run([os.path.join(BUILD, "bin", "own_calls"), node.socket, "100000"], check=True,
                          capture_output=True, text=True).stdout.split()
    for name, ns in zip(("own get", "own put", "socket"), said):
        figures.take(name, float(ns) / 1e3)
    figures.take("get", us_of(lambda: client.get("key"), 100_000))
    figures.take("redis get", us_of(lambda: other.get("key"), 2_000))
    figures.take("put", us_of(lambda: client.put("key", VALUE), 10_000))
    figures.take("redis put", us_of(lambda: other.set("key", VALUE), 2_000))
    figures.take("get_many", us_of(lambda: client.get_many(KEYS), 50))
    figures.take("redis get_many", us_of(lambda: other.mget(KEYS), 20))


def measure_beside(figures, client, node):
    """A thread that computes beside one that waits in puts."""
    figures.take("alone", turns_of(0.3))
    for name in ("stopped", "running"):
        is_over = threading.Event()

        def put(is_over=is_over):
            while not is_over.is_set():
                try:
                    client.put("key", VALUE, timeout=0.05)
                except refract.Error:
                    pass

        thread = threading.Thread(target=put)
        if name == "stopped":
            with node.stopped_server():
                thread.start()
                figures.take(name, turns_of(0.3))
                is_over.set()
                thread.join()
        else:
            thread.start()
            figures.take(name, turns_of(0.3))
            is_over.set()
            thread.join()


def measure_import(figures):
    for name, module in (("import", "refract"), ("redis import", "redis")):
        program = f"import time; b = time.perf_counter(); import {module}; print(time.perf_counter() - b)"
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}).stdout
        figures.take(name, float(said) * 1e6)


def measure_lock(client):
    """What a copy costs with the lock kept, and how long the lock takes to come back."""
    print("\na get, by its length; what is longer than 64 KiB is copied without the lock")
    busy = threading.Event()

    def compute():
        while not busy.is_set():
            pass

    lengths = [64, 1024, 16 * 1024, 64 * 1024, 64 * 1024 + 1, 256 * 1024, MIB]
    for length in lengths:
        client.put(f"length {length}", bytes(length))
    rows = {length: [us_of(lambda k=f"length {length}": client.get(k), 200)] for length in lengths}
    thread = threading.Thread(target=compute)
    thread.start()
    for length in lengths:
        rows[length].append(us_of(lambda k=f"length {length}": client.get(k), 200))
    busy.set()
    thread.join()
    for length, (alone, beside) in rows.items():
        print(f"  {length:>8} bytes: {alone:8.2f} us, beside a thread that computes {beside:8.2f} us")


def tell(figures):
    median = figures.median
    figures.line("get of 64 B, C++", median("own get"), "us")
    figures.line("get of 64 B", median("get"), "us", median("get") - median("own get"), "at most 0.6 us more")
    figures.line("  redis-py", median("redis get"), "us", median("redis get") / median("get"), "40 times")
    figures.line("put of 64 B, C++", median("own put"), "us")
    figures.line("put of 64 B", median("put"), "us", median("redis put") / median("put"), "10 times")
    figures.line("  redis-py", median("redis put"), "us")
    figures.line("get_many of 1,000 keys", median("get_many"), "us",
                 median("redis get_many") / median("get_many"), "6 times")
    figures.line("  redis-py, mget", median("redis get_many"), "us")
    figures.line("there and back on a Unix socket, two busy cores", median("socket"), "us")
    for name, bar in (("stopped", "0.95"), ("running", "0.6")):
        figures.line(f"a thread beside puts, server {name}", median(name), "",
                     median(name) / median("alone"), f"{bar} of alone")
    figures.line("import refract", median("import"), "us", median("redis import") / median("import"),
                 "not slower than redis")


def main():
    with (tempfile.TemporaryDirectory(prefix="refract-bench-") as folder,
          Node("--memory-limit", "256MiB") as node, RedisServer(folder) as other,
          refract.connect(node.socket) as client):
        client.put_many({key: VALUE for key in KEYS})
        other.mset({key: VALUE for key in KEYS})
        client.put("key", VALUE)
        other.set("key", VALUE)
        figures = Figures()
        for _ in range(ROUNDS):
            measure(figures, client, other, node)
            measure_beside(figures, client, node)
            measure_import(figures)
        tell(figures)
        measure_lock(client)


if __name__ == "__main__":
    main()
