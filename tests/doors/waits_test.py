# SPDX-License-Identifier: Apache-2.0
"""Commands that wait by the will of another client, and what INFO counts of commands and of evictions.

    /usr/bin/python3 -B tests/doors/waits_test.py build/bin/refractd build/bin/refract
"""

import re
import sys
import threading
import time
import unittest

from door import PATIENCE_S, Door, Redis, request
from node import Programs


def info_of(one, section):
    return one.ask("INFO", section).decode()


def until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


class Asked:
    """A command that is under way in a thread of its own."""

    def __init__(self, one, *words):
        self.reply = None
        self.took_s = None
        self._begun = time.monotonic()
        one.send(request(*words))
        self._thread = threading.Thread(target=self._wait, args=(one,))
        self._thread.start()

    def _wait(self, one):
        self.reply = one.reply()
        self.took_s = time.monotonic() - self._begun

    def join(self):
        self._thread.join(PATIENCE_S)
        return self.reply


class Pause(unittest.TestCase):
    def test_of_writes_holds_up_writes_of_all_threads_until_its_end_or_unpause(self):
        with Door("--doors-threads", "3") as door:
            lines = [door.connect() for _ in range(6)]
            lines[0].ask("SET", "k", "before")
            self.assertEqual(lines[0].ask("CLIENT", "PAUSE", "600000", "WRITE"), b"+OK\r\n")
            writes = [Asked(line, "SET", f"k{i}", "v") for i, line in enumerate(lines[1:])]
            for _ in range(50):
                self.assertEqual(lines[0].ask("GET", "k"), b"$6\r\nbefore\r\n")
                self.assertEqual(lines[0].ask("EXISTS", *(f"k{i}" for i in range(5))), b":0\r\n")
            # What is wrong is said at once.
            self.assertTrue(lines[0].ask("SET", "k").startswith(b"-ERR wrong number"))
            self.assertEqual(lines[0].ask("CLIENT", "UNPAUSE"), b"+OK\r\n")
            self.assertEqual([write.join() for write in writes], [b"+OK\r\n"] * 5)
            self.assertEqual(lines[0].ask("EXISTS", *(f"k{i}" for i in range(5))), b":5\r\n")
            for line in lines:
                line.socket.close()

    def test_of_all_holds_up_everything_for_its_time_as_in_redis(self):
        for server in (Door("--doors-threads", "2"), Redis()):
            with server, server.connect() as one, server.connect() as other:
                self.assertEqual(one.ask("CLIENT", "PAUSE", "400"), b"+OK\r\n")
                held = [Asked(one, "CLIENT", "UNPAUSE"), Asked(other, "PING")]
                self.assertEqual([one.join() for one in held], [b"+OK\r\n", b"+PONG\r\n"])
                self.assertGreater(max(one.took_s for one in held), 0.3)
                self.assertEqual(one.ask("PING"), b"+PONG\r\n")

    def test_a_pipeline_keeps_its_order_across_a_pause(self):
        with Door("--doors-threads", "2") as door, door.connect() as one, door.connect() as other:
            self.assertEqual(other.ask("CLIENT", "PAUSE", "300", "WRITE"), b"+OK\r\n")
            words = b"".join(request("INCR", "n") + request("GET", "n") for _ in range(2000))
            one.send(words)
            replies = [one.reply() for _ in range(4000)]
            wanted = []
            for i in range(1, 2001):
                wanted += [b":%d\r\n" % i, b"$%d\r\n%d\r\n" % (len(str(i)), i)]
            self.assertEqual(replies, wanted)

    def test_a_later_one_extends_it_and_an_end_is_an_end(self):
        with Door() as door, door.connect() as one, door.connect() as other:
            begun = time.monotonic()
            other.send(
                request("CLIENT", "PAUSE", "500", "WRITE") + request("CLIENT", "PAUSE", "100", "WRITE")
            )
            self.assertEqual([other.reply(), other.reply()], [b"+OK\r\n"] * 2)
            self.assertEqual(one.ask("SET", "k", "v"), b"+OK\r\n")
            self.assertGreater(time.monotonic() - begun, 0.45)
            begun = time.monotonic()
            for _ in range(100):
                self.assertEqual(one.ask("SET", "k", "v"), b"+OK\r\n")
            self.assertEqual(other.ask("CLIENT", "PAUSE", "1", "WRITE"), b"+OK\r\n")
            self.assertEqual(one.ask("SET", "k", "v"), b"+OK\r\n")


class Unblock(unittest.TestCase):
    def test_a_wait_ends_as_redis_ends_it(self):
        for server in (Door("--doors-threads", "2"), Redis()):
            with server, server.connect() as one, server.connect() as other:
                number = int(other.ask("CLIENT", "ID")[1:])
                self.assertEqual(one.ask("CLIENT", "UNBLOCK", number), b":0\r\n")
                for words, reply in [
                    ((), b":0\r\n"),
                    (("TIMEOUT",), b":0\r\n"),
                    (("error",), b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
                ]:
                    waiting = Asked(other, "WAIT", "3", "0")
                    until(lambda: "blocked_clients:1" in info_of(one, "clients"))
                    self.assertEqual(one.ask("CLIENT", "UNBLOCK", number, *words), b":1\r\n")
                    self.assertEqual(waiting.join(), reply)
                    until(lambda: "blocked_clients:0" in info_of(one, "clients"))


class Counts(unittest.TestCase):
    def test_commands_are_counted_as_redis_counts_them(self):
        told = []
        for server in (Door("--doors-threads", "2"), Redis()):
            with server, server.connect() as one, server.connect() as other:
                one.ask("CONFIG", "RESETSTAT")
                for i in range(10):
                    (one if i % 2 else other).ask("SET", "k", "text")
                    one.ask("GeT", "k")
                one.ask("GET")
                one.ask("INCR", "k")
                one.ask("MGET", "k", "l")
                one.ask("CLIENT", "ID")
                one.ask("CLIENT", "ID", "x")
                one.ask("nosuch")
                other.ask("SET", "k", "v", "XX", "NX")
                stats = info_of(one, "commandstats")
                self.assertTrue(stats.startswith("$"))
                found = re.findall(
                    r"cmdstat_([^:]+):calls=(\d+),usec=\d+,usec_per_call=\d+\.\d\d,"
                    r"rejected_calls=(\d+),failed_calls=(\d+)\r\n",
                    stats,
                )
                told.append(sorted(line for line in found if line[0] != "config|resetstat"))
                one.ask("CONFIG", "RESETSTAT")
                self.assertNotIn("cmdstat_get", info_of(one, "commandstats"))
                self.assertNotIn("cmdstat", one.ask("INFO").decode())
        self.assertEqual(told[0], told[1])
        self.assertIn(("get", "10", "1", "0"), told[0])
        self.assertIn(("incr", "1", "0", "1"), told[0])

    def test_evicted_keys_are_those_that_left_for_others(self):
        with Door("--memory-limit", "64MiB", "--memory-eviction", "lru") as door, door.connect() as one:
            self.assertIn("evicted_keys:0\r\n", info_of(one, "stats"))
            value = b"v" * 100_000
            for i in range(1200):
                self.assertEqual(one.ask("SET", f"k{i}", value), b"+OK\r\n")
            evicted = int(re.search(r"evicted_keys:(\d+)", info_of(one, "stats")).group(1))
            self.assertGreater(evicted, 300)
            self.assertEqual(evicted + int(one.ask("DBSIZE")[1:]), 1200)
            one.ask("CONFIG", "RESETSTAT")
            self.assertIn("evicted_keys:0\r\n", info_of(one, "stats"))

    def test_memory_stats_are_those_of_info(self):
        with Door() as door, door.connect() as one, Redis() as redis:
            for i in range(100):
                one.ask("SET", f"k{i}", "v" * 100)
            for protocol in (2, 3):
                one.ask("HELLO", protocol)
                told = one.ask("MEMORY", "STATS")
                self.assertTrue(told.startswith(b"*16\r\n" if protocol == 2 else b"%8\r\n"), told)
                self.assertIn(b"\r\nkeys.count\r\n:100\r\n", told)
                allocated = int(re.search(rb"total\.allocated\r\n:(\d+)", told).group(1))
                self.assertGreater(allocated, 100 * 100)
                ratio = rb"dataset\.percentage\r\n" + (rb"\$\d+\r\n" if protocol == 2 else rb",")
                self.assertRegex(told, ratio + rb"\d+(\.\d+)?\r\n")
            with redis.connect() as other:
                names = set(re.findall(rb"\r\n([a-z][a-z.-]+)", other.ask("MEMORY", "STATS")))
            self.assertLessEqual(set(re.findall(rb"\r\n([a-z][a-z.-]+)", told)), names)


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
