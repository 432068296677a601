#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.Client beside redis-py with hiredis over a Unix socket, and beside our own C++ client.

Usage: kv_bench.py [BUILD] [ROUNDS]

All sides are measured in turns, round for round, in one run; what is printed is the median of the rounds, and
the ratio of the medians with its bar. Of a round the quickest of twenty batches counts, for each side. Needs
scripts/setup bars, and `ninja -C BUILD refract_python own_calls refractd`.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 11
sys.path[:0] = [os.path.join(BUILD, "python"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cli")]
import redis  # noqa: E402
from node import Node, Programs  # noqa: E402
import refract  # noqa: E402

Programs.refractd = os.path.join(BUILD, "bin", "refractd")
VALUE = b"v" * 64
KEYS = [f"key:{number}" for number in range(1_000)]
MIB = 1 << 20


class RedisServer:
    """Debian's server, which has two names, on a socket of its own and without files. `port`: there, too."""

    def __init__(self, folder, port=0):
        self.socket = os.path.join(folder, "redis.sock")
        executable = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--unixsocket", self.socket, "--save", "", "--dir", folder],
            executable=executable, stdout=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            time.sleep(0.01)

    def __enter__(self):
        return redis.Redis(unix_socket_path=self.socket)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def us_of(call, calls, batches=20):
    """Of the quickest of some batches, since others use the machine, too."""
    number = max(1, calls // batches)
    return min(timeit.repeat(call, number=number, repeat=batches)) / number * 1e6


def turns_of(seconds):
    """How far a thread that computes comes in this time."""
    end, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        turns += 1
    return turns


class Figures(dict):
    def take(self, name, value):
        self.setdefault(name, []).append(value)

    def median(self, name):
        return statistics.median(self[name])

    def line(self, what, value, unit, ratio=None, bar=None):
        text = f"{what:<46} {value:>10.2f} {unit:<4}"
        if ratio is not None:
            text += f" {ratio:>8.2f}  bar {bar}"
        print(text)


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
