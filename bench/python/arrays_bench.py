#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays and pages of 4 MiB from Python: beside memcpy over the same memory, beside
multiprocessing.shared_memory, and beside redis-py with hiredis over a Unix socket.

Usage: arrays_bench.py [BUILD] [ROUNDS]

All sides are measured in turns, round for round, in one run; what is printed is the median of the rounds,
and the ratio of the medians with its bar. Of a walk over many values the quickest of a round counts, for
each side. Needs 2 GiB of memory; see sides.py.
"""

import os
import sys
import tempfile
import time
from multiprocessing.shared_memory import SharedMemory

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sides import MIB, ROUNDS, Figures, Node, RedisServer, us_of  # noqa: E402

import refract  # noqa: E402

BYTES = 4 * MIB
# With their headers they are what a client keeps of its reservations' memory, 64 MiB.
WALK = 15
PAGES = 64


def us_each(calls, walks=3):
    """Of one call, in the quickest of some walks over all."""
    best = float("inf")
    for _ in range(walks):
        begun = time.perf_counter()
        for call in calls:
            call()
        best = min(best, time.perf_counter() - begun)
    return best / len(calls) * 1e6


def copies(targets, sources):
    return [lambda t=target, s=source: numpy.copyto(t, s) for target, source in zip(targets, sources)]


def attach(name):
    memory = SharedMemory(name=name)
    a = numpy.ndarray(BYTES // 8, "f8", buffer=memory.buf)
    del a
    memory.close()


def measure_one(figures, client, other, memory):
    """An array that another process has put: from its name to the array."""
    figures.take("array", us_of(lambda: client.array("array"), 20_000))
    figures.take("view", us_of(lambda: client.view("array"), 20_000))
    figures.take("SharedMemory", us_of(lambda: attach(memory.name), 2_000))
    figures.take("redis-py", us_each([lambda: numpy.frombuffer(other.get("array"))] * 10))


def measure_walk(figures, client, sources, targets):
    keys = [f"walk {number}" for number in range(WALK)]
    figures.take("memcpy", us_each(copies(targets, sources)))
    figures.take("put_array", us_each([lambda k=key, s=source: client.put_array(k, s)
                                       for key, source in zip(keys, sources)]))
    figures.take("put", us_each([lambda k=key, s=source: client.put("plain" + k[5:], s)
                                 for key, source in zip(keys, sources)]))
    figures.take("get_into", us_each([lambda k=key, t=target: client.get_into("plain" + k[5:], t)
                                      for key, target in zip(keys, targets)]))
    whole, best = [], float("inf")
    for _ in range(3):
        builds = [client.build(key, BYTES, "u1") for key in keys]
        arrays = [build.__enter__() for build in builds]
        begun = time.perf_counter()
        for a, source in zip(arrays, sources):
            numpy.copyto(a, source)
        between = time.perf_counter()
        for build in builds:
            build.__exit__(None, None, None)
        end = time.perf_counter()
        whole.append(end - begun)
        best = min(best, end - between)
        del a, arrays, builds, build
    figures.take("build", best / WALK * 1e6)
    figures.take("fill and build", min(whole) / WALK * 1e6)


def measure_pages(figures, client, tcp, other, pages):
    keys = [f"page {number}" for number in range(PAGES)]
    # Where the node has them: the same memory is read.
    views = [client.view(key) for key in keys]
    sources = [numpy.frombuffer(view, "u1") for view in views]
    figures.take("memcpy of pages", us_each(copies(pages, sources), 2) * PAGES / 1e3)
    del sources, views
    figures.take("pages", us_each([lambda: client.get_many_into(keys, pages)], 2) / 1e3)
    figures.take("pages over tcp", us_each([lambda: tcp.get_many_into(keys, pages)], 2) / 1e3)
    figures.take("mget alone", us_each([lambda: other.mget(keys)], 1) / 1e3)

    def copied():
        for page, value in zip(pages, other.mget(keys)):
            page[...] = numpy.frombuffer(value, "u1")

    figures.take("redis-py's mget", us_each([copied], 1) / 1e3)


def tell(figures):
    median = figures.median
    array = median("array")
    figures.line("array of 4 MiB", array, "us", array, "under 3 us", array < 3)
    figures.beside("  beside SharedMemory", "array", "SharedMemory", 5)
    figures.line("  a view of it", median("view"), "us")
    figures.line("  SharedMemory: attach, array, close", median("SharedMemory"), "us")
    figures.line("  redis-py: get, frombuffer", median("redis-py"), "us", median("redis-py") / array, "none")
    figures.line("memcpy of 4 MiB", median("memcpy"), "us")
    figures.beside("get_into of 4 MiB", "get_into", "memcpy", 0.85)
    figures.beside("put_array of 4 MiB", "put_array", "memcpy", 0.7)
    figures.line("  put of the same buffer", median("put"), "us", median("memcpy") / median("put"), "none")
    figures.beside("build of 4 MiB, the put of it", "build", "memcpy", 1.6)
    figures.line("  filling it by memcpy, and the put", median("fill and build"), "us",
                 median("memcpy") / median("fill and build"), "none")
    figures.line("memcpy of 64 pages of 4 MiB", median("memcpy of pages"), "ms")
    figures.beside("get_many_into of them, shm", "pages", "memcpy of pages", 0.8, "ms")
    figures.beside("get_many_into of them, tcp", "pages over tcp", "redis-py's mget", 3, "ms")
    figures.line("  redis-py: mget, and a copy to the pages", median("redis-py's mget"), "ms")
    figures.line("  redis-py: mget alone", median("mget alone"), "ms",
                 median("mget alone") / median("pages over tcp"), "none")


def main():
    with (tempfile.TemporaryDirectory(prefix="refract-bench-") as folder,
          Node("--memory-limit", "640MiB", "--listen-address", "127.0.0.1:0") as node,
          RedisServer(folder) as other,
          refract.connect(node.socket) as client,
          refract.connect(f"refract://{node.tcp_address}?transport=tcp") as tcp):
        numbers = numpy.arange(BYTES // 8, dtype="f8")
        client.put_array("array", numbers)
        other.set("array", numbers.tobytes())
        memory = SharedMemory(create=True, size=BYTES)
        pages = [numpy.ones(BYTES, "u1") for _ in range(PAGES)]
        for number, page in enumerate(pages):
            client.put(f"page {number}", page)
            other.set(f"page {number}", page.tobytes())
        sources = [numpy.full(BYTES, number, "u1") for number in range(WALK)]
        figures = Figures()
        try:
            for _ in range(ROUNDS):
                measure_one(figures, client, other, memory)
                measure_walk(figures, client, sources, pages[:WALK])
                measure_pages(figures, client, tcp, other, pages)
        finally:
            memory.close()
            memory.unlink()
        tell(figures)


if __name__ == "__main__":
    main()
