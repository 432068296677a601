# SPDX-License-Identifier: Apache-2.0
"""The server is killed again and again under clients that count: no connection ends, what each was told has
happened once, in its order, and nothing that was acknowledged is lost.

    /usr/bin/python3 -B tests/doors/kill_test.py build/bin/refractd build/bin/refract
"""

import itertools
import os
import random
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

from door import PATIENCE_S, Door, at_once, number, request
from node import Programs

KILLS = int(os.environ.get("REFRACT_DOOR_KILLS", 12))
# The next server comes at once, however many have died.
KILLED = ("--restart-backoff", "0ns", "--restart-limit", "1000")
DEPTH = 16
OK = b"+OK\r\n"


def bulk(text):
    text = str(text).encode()
    return b"$%d\r\n%s\r\n" % (len(text), text)


def value_of(reply):
    return reply.split(b"\r\n", 1)[1][:-2]


class Client:
    """Sixteen commands at a time, of one connection, until it is told to end."""

    def __init__(self, i):
        self.i = i
        self.rounds = 0

    def run(self, door, is_over):
        with door.connect() as one:
            while not is_over.is_set():
                self.turn(one)
                self.rounds += 1
        return self

    @staticmethod
    def ask(one, commands):
        one.send(b"".join(request(*words) for words in commands))
        return [one.reply() for _ in commands]

    def turn(self, one):
        raise NotImplementedError

    def check(self, one, clients):
        """When all have ended."""


class Counts(Client):
    """One key of all such clients, and one of its own."""

    def __init__(self, i):
        super().__init__(i)
        self.told = []

    def turn(self, one):
        own = self.rounds * (DEPTH // 2)
        replies = self.ask(one, [["INCR", "sum"], ["INCRBY", f"own:{self.i}", "3"]] * (DEPTH // 2))
        self.told += [number(reply) for reply in replies[::2]]
        wanted = [b":%d\r\n" % (3 * (own + i)) for i in range(1, DEPTH // 2 + 1)]
        assert replies[1::2] == wanted, (replies, wanted)

    def check(self, one, clients):
        assert self.told == sorted(set(self.told)), "in their order"
        told = sorted(sum((client.told for client in clients if isinstance(client, Counts)), []))
        assert told == list(range(1, len(told) + 1)), "each was told once"
        assert one.ask("GET", "sum") == bulk(len(told))


class Appends(Client):
    """To one text of all such clients: each finds its parts in its order, and once."""

    def turn(self, one):
        if self.rounds >= 400:  # It is copied with each.
            return time.sleep(0.01)
        begin = self.rounds * (DEPTH // 2)
        commands = []
        for i in range(begin, begin + DEPTH // 2):
            commands += [
                ["APPEND", "text", f"<{self.i}:{i}>"],
                ["SETRANGE", f"range:{self.i}", 2 * i, "ab"],
            ]
        replies = self.ask(one, commands)
        lengths = [number(reply) for reply in replies]
        assert lengths[::2] == sorted(set(lengths[::2])), lengths
        assert lengths[1::2] == [2 * i + 2 for i in range(begin, begin + DEPTH // 2)], lengths
        return None

    def check(self, one, _):
        count = min(self.rounds, 400) * (DEPTH // 2)
        parts = value_of(one.ask("GET", "text"))[1:-1].split(b"><")
        own = [part for part in parts if part.startswith(b"%d:" % self.i)]
        assert own == [b"%d:%d" % (self.i, j) for j in range(count)]
        assert value_of(one.ask("GET", f"range:{self.i}")) == b"ab" * count


class Sets(Client):
    """Of a key of its own, by all ways that a value takes, so that each meets each."""

    last = b""

    def turn(self, one):
        key, commands = f"set:{self.i}", []
        for i in range(DEPTH):
            value = b"%d:%d" % (self.rounds, i)
            if i % 8 == 5:
                value += b"x" * 2000
            commands.append(["SET", key, value] + [[], ["XX"], ["KEEPTTL"], ["EX", "1000"]][i % 4])
            self.last = value
        # The first one finds what the last round has left, or nothing.
        replies = self.ask(one, commands)
        assert replies == [OK] * DEPTH, list(zip(commands, replies))
        assert one.ask("GET", key) == bulk(self.last.decode())

    def check(self, one, _):
        assert value_of(one.ask("GET", f"set:{self.i}")) == self.last


class Exchanges(Client):
    """What depends on what was there: each finds what the one before it has left."""

    def turn(self, one):
        key, begin = f"exchange:{self.i}", self.rounds * DEPTH
        commands = [
            ["GETSET", key, begin + i] if i % 2 == 0 else ["SET", key, begin + i, "GET"]
            for i in range(DEPTH)
        ]
        replies = self.ask(one, commands)
        wanted = [bulk(begin + i - 1) if begin + i > 0 else b"$-1\r\n" for i in range(DEPTH)]
        assert replies == wanted, (replies, wanted)

    def check(self, one, _):
        assert one.ask("GET", f"exchange:{self.i}") == bulk(self.rounds * DEPTH - 1)


class Takes(Client):
    """What would answer otherwise if it was done twice."""

    def turn(self, one):
        lock, key = f"lock:{self.i}", f"key:{self.i}"
        moment = 4_000_000_000_000 + self.rounds
        commands = [
            ["SET", lock, "1", "NX"],
            ["SET", lock, "2", "NX"],
            ["DEL", lock],
            ["DEL", lock],
            ["SETNX", lock, "3"],
            ["GETDEL", lock],
            ["SET", key, "1.5"],
            ["PERSIST", key],
            ["PEXPIREAT", key, moment],
            ["PEXPIREAT", key, moment, "GT"],
            ["INCRBYFLOAT", key, "2"],
            ["PEXPIRETIME", key],
            ["PERSIST", key],
            ["PERSIST", key],
            ["UNLINK", key],
            ["EXISTS", key, lock],
        ]
        replies = self.ask(one, commands)
        yes, no = b":1\r\n", b":0\r\n"
        wanted = [OK, b"$-1\r\n", yes, no, yes, bulk(3), OK, no, yes, no]
        wanted += [bulk("3.5"), b":%d\r\n" % moment, yes, no, yes, no]
        assert replies == wanted, list(zip(commands, replies, wanted))


class Kills(unittest.TestCase):
    def run_kills(self, *flags):
        kinds = [Counts, Counts, Appends, Appends, Sets, Sets, Exchanges, Takes]
        clients = [kind(i) for i, kind in enumerate(kinds)]
        with Door(*KILLED, *flags) as door:
            is_over = threading.Event()

            def kill():
                for _ in range(KILLS):
                    # All of them are in the middle of something.
                    before = [client.rounds for client in clients]
                    end = time.monotonic() + PATIENCE_S
                    while any(one.rounds < was + 2 for one, was in zip(clients, before)):
                        if is_over.wait(0.001):
                            return
                        self.assertLess(time.monotonic(), end, "no client comes further")
                    os.kill(door.server(), signal.SIGKILL)

            def work(i):
                try:
                    return kill() if i == len(clients) else clients[i].run(door, is_over)
                finally:
                    # The last kill, or a client that has found something.
                    is_over.set()

            at_once(len(clients) + 1, work)
            with door.connect() as one:
                for client in clients:
                    client.check(one, clients)

    def test_break_no_connection_and_nothing_is_done_twice(self):
        self.run_kills()

    def test_the_same_over_two_shards_and_two_threads(self):
        self.run_kills("--server-shards", "2", "--doors-threads", "2")

    def test_the_same_with_a_log_that_is_synced(self):
        with tempfile.TemporaryDirectory(prefix="refract-kills-") as folder:
            self.run_kills("--data-durability", "always", "--data-folder", folder + "/log")

    def test_the_same_with_a_log_and_two_shards(self):
        with tempfile.TemporaryDirectory(prefix="refract-kills-") as folder:
            self.run_kills(
                "--server-shards", "2", "--data-durability", "everysec", "--data-folder", folder + "/log"
            )


class Leavers(unittest.TestCase):
    """Connections that are reset with writes under way, or refused for now."""

    def run_leavers(self, kills, *flags):
        with Door("--memory-limit", "64MiB", *KILLED, *flags) as door, door.connect() as stays:
            doors, is_over = door.doors(), threading.Event()

            def leave(i):
                chance = random.Random(i)
                while not is_over.is_set():
                    with door.connect() as one:
                        commands = []
                        for j in range(chance.randrange(1, 200)):
                            key = f"key:{chance.randrange(50)}"
                            value = "x" * chance.choice([1, 100, 9_000])
                            commands += chance.choice(
                                [
                                    [["SET", key, value]],
                                    [["SET", f"fill:{i}:{chance.randrange(4_000)}", value]],
                                    [["INCR", "sum"]],
                                    [["APPEND", key, "y"], ["EXPIRE", key, "1000"]],
                                    [["DEL", key], ["GET", key]],
                                    [["GETSET", key, value], ["MGET", key, "sum"]],
                                ]
                            )
                        one.send(b"".join(request(*words) for words in commands))
                        for _ in range(chance.randrange(min(len(commands), 10))):
                            one.reply()
                        # It ends at once, and what was not read is thrown away.
                        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

            def stay():
                for _ in range(kills):
                    time.sleep(0.2)
                    os.kill(door.server(), signal.SIGKILL)
                time.sleep(1)
                is_over.set()

            at_once(7, lambda i: stay() if i == 6 else leave(i))
            self.assertEqual(door.doors(), doors)
            # All have ended.
            end = time.monotonic() + PATIENCE_S
            while b"connected_clients:1\r\n" not in stays.ask("INFO", "clients"):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            stays.ask("DEL", *[f"key:{i}" for i in range(50)])
            self.assertEqual(stays.ask("SET", "key:1", "v"), OK)

    def test_leave_nothing_behind(self):
        self.run_leavers(0)

    def test_leave_nothing_behind_in_a_full_node_and_beside_kills(self):
        self.run_leavers(5, "--memory-eviction", "none", "--server-shards", "2")


class GrowingNode(unittest.TestCase):
    """Its memory grows, and is full: the owner refuses some writes for now, some for good. Those of a
    connection stay in their order."""

    def run_growth(self, kills, *flags):
        """Returns how many writes were refused for good."""
        writers, turns_of_one = 6, 400
        with Door(*KILLED, *flags) as door:
            is_over, turns, refused = threading.Event(), [0, 0], [0] * writers

            def write(i):
                # Of what length a value is decides whether there is room for it.
                key, done = f"key:{i}", b""
                with door.connect() as one:
                    for turn in itertools.takewhile(lambda _: not is_over.is_set(), itertools.count()):
                        values = [
                            b"%d:%d:" % (turn, j) + b"x" * (1, 9_000, 300, 2_000, 9_000)[(i + j + turn) % 5]
                            for j in range(DEPTH)
                        ]
                        one.send(b"".join(request("SET", key, value) for value in values))
                        one.send(request("GET", key))
                        for value in values:
                            reply = one.reply()
                            self.assertTrue(reply == OK or reply.startswith(b"-OOM "), reply)
                            refused[i] += reply != OK
                            done = value if reply == OK else done
                        found = one.reply()
                        # An entry may have been evicted, and no older one comes back.
                        if found != b"$-1\r\n":
                            self.assertEqual(value_of(found), done)
                        else:
                            self.assertTrue(done == b"" or "lru" in flags)

            def fill(i):
                # What finds no room makes some.
                with door.connect() as one:
                    while turns[i] < turns_of_one and not is_over.is_set():
                        names = [f"fill:{i}:{64 * turns[i] + j}" for j in range(64)]
                        one.send(b"".join(request("SET", name, "y" * 9_000) for name in names))
                        replies = [one.reply() for _ in names]
                        if any(reply != OK for reply in replies):
                            one.send(b"".join(request("DEL", name) for name in names[::2]))
                            for _ in names[::2]:
                                self.assertIn(one.reply(), (b":0\r\n", b":1\r\n"))
                        turns[i] += 1

            def kill():
                for i in range(kills):
                    wanted = (i + 1) * 2 * turns_of_one // (kills + 1)
                    while sum(turns) < wanted and not is_over.wait(0.001):
                        pass
                    os.kill(door.server(), signal.SIGKILL)

            def work(i):
                try:
                    if i < writers:
                        write(i)
                    else:
                        fill(i - writers) if i < writers + 2 else kill()
                except BaseException:
                    is_over.set()
                    raise
                if sum(turns) == 2 * turns_of_one:
                    is_over.set()

            at_once(writers + 3, work)
            return sum(refused)

    def test_keeps_the_order_until_it_is_full(self):
        self.assertGreater(self.run_growth(0, "--memory-limit", "256MiB", "--memory-eviction", "none"), 0)

    def test_keeps_the_order_where_it_evicts(self):
        flags = ("--memory-limit", "256MiB", "--memory-eviction", "lru")
        self.run_growth(0, *flags)
        self.run_growth(0, *flags, "--server-shards", "2", "--doors-threads", "2")

    def test_keeps_the_order_beside_kills(self):
        for eviction in ("none", "lru"):
            self.run_growth(6, "--memory-limit", "256MiB", "--memory-eviction", eviction)


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
