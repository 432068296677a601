# SPDX-License-Identifier: Apache-2.0
"""What people and their tools see of a door: SLOWLOG, INFO, CONFIG, MEMORY, and redis-cli.

    /usr/bin/python3 -B tests/doors/admin_test.py build/bin/refractd build/bin/refract
"""

import re
import subprocess
import sys
import time
import unittest

from door import PATIENCE_S, Door, Redis, redis_cli, request
from node import Programs
from replies import info_of, value_of


class Watching(unittest.TestCase):
    def test_slow_commands_are_written_down(self):
        with Door() as door, Redis() as redis, door.connect() as one, redis.connect() as other:
            one.ask("CLIENT", "SETNAME", "me")
            self.assertEqual(one.ask("SLOWLOG", "LEN"), b":0\r\n")
            self.assertEqual(one.ask("DEBUG", "SLEEP", "0.03"), b"+OK\r\n")
            (entry,) = value_of(one.ask("SLOWLOG", "GET"))
            self.assertEqual(entry[0], 0)
            self.assertLess(abs(entry[1] - time.time()), 60)
            self.assertGreaterEqual(entry[2], 30_000)
            self.assertLess(entry[2], 30_000_000)
            self.assertEqual(entry[3], ["DEBUG", "SLEEP", "0.03"])
            self.assertEqual(entry[4], "%s:%d" % one.socket.getsockname())
            self.assertEqual(entry[5], "me")
            # A write that waits for its server is slow, too.
            with door.stopped_server():
                one.send(request("SET", "k", "v"))
                time.sleep(0.1)
            one.reply()
            self.assertEqual(value_of(one.ask("SLOWLOG", "GET", "1"))[0][3], ["SET", "k", "v"])
            # Of all commands, with as many of their words as Redis keeps.
            for each in (one, other):
                each.ask("SLOWLOG", "RESET")
                each.ask("CONFIG", "SET", "slowlog-log-slower-than", "0")
                each.ask("GET", "k")
                each.ask("SET", "k", "v" * 1000)
                each.ask("MSET", *(f"w{i}" for i in range(40)))
                each.ask("EXISTS", *(f"w{i}" for i in range(33)))
                each.ask("nosuch")
                each.ask("CLIENT", "ID")
            logged = [
                [
                    entry[3]
                    for entry in value_of(each.ask("SLOWLOG", "GET", "-1"))
                    if entry[3][0] != "CONFIG"
                ]
                for each in (one, other)
            ]
            self.assertEqual(logged[0], logged[1])
            self.assertEqual(len(logged[0]), 5)
            # The last ones are kept.
            one.ask("CONFIG", "SET", "slowlog-max-len", "3")
            for i in range(10):
                one.ask("ECHO", i)
            self.assertEqual(one.ask("SLOWLOG", "LEN"), b":3\r\n")
            entries = value_of(one.ask("SLOWLOG", "GET"))
            self.assertEqual([entry[3] for entry in entries[1:]], [["ECHO", "9"], ["ECHO", "8"]])
            numbers = [entry[0] for entry in entries]
            self.assertEqual(numbers, sorted(numbers, reverse=True))
            one.ask("CONFIG", "SET", "slowlog-log-slower-than", "-1")
            one.ask("SLOWLOG", "RESET")
            one.ask("DEBUG", "SLEEP", "0.02")
            self.assertEqual(one.ask("SLOWLOG", "LEN"), b":0\r\n")

    def test_a_sleep_holds_up_its_own_connection_alone(self):
        with Door() as door, door.connect() as one, door.connect() as other:
            begin = time.monotonic()
            one.send(request("DEBUG", "SLEEP", "0.5") + request("PING") + request("SET", "k", "v"))
            one.send(request("WAIT", "1", "100"))
            other.ask("PING")
            self.assertEqual(other.ask("EXISTS", "k"), b":0\r\n")
            self.assertLess(time.monotonic() - begin, 0.5)
            self.assertEqual(one.reply(), b"+OK\r\n")
            self.assertEqual(one.reply(), b"+PONG\r\n")
            self.assertEqual(one.reply(), b"+OK\r\n")
            self.assertEqual(one.reply(), b":0\r\n")
            self.assertGreaterEqual(time.monotonic() - begin, 0.6)

    def test_who_waits_without_end_is_ended_with_its_connection(self):
        with Door() as door, door.connect() as one:
            waiting = [door.connect() for _ in range(3)]
            for line in waiting:
                self.addCleanup(line.socket.close)
            for line in waiting:
                line.send(request("WAIT", "1", "0"))

            def until_blocked(count):
                end = time.monotonic() + PATIENCE_S
                while info_of(one, "clients")["blocked_clients"] != count and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertEqual(info_of(one, "clients")["blocked_clients"], count)

            until_blocked("3")
            waiting[0].socket.close()
            until_blocked("2")
            self.assertEqual(one.ask("CLIENT", "KILL", "TYPE", "normal"), b":2\r\n")
            self.assertEqual(info_of(one, "clients")["blocked_clients"], "0")
            for line in waiting[1:]:
                self.assertTrue(line.is_at_its_end())

    def test_info_tells_what_was_done(self):
        with Door("--doors-threads", "2") as door, door.connect() as one, Redis() as redis:
            for key in range(100):
                one.ask("SET", f"k{key}", "v")
            one.ask("SET", "expiring", "v", "EX", "1000")
            for key in range(10):
                one.ask("GET", f"k{key}")
            for key in range(4):
                one.ask("GET", f"none{key}")
            info = info_of(one)
            self.assertEqual(info["redis_version"], "7.0.15")
            self.assertEqual(info["keyspace_hits"], "10")
            self.assertEqual(info["keyspace_misses"], "4")
            self.assertEqual(info["evicted_keys"], "0")
            self.assertEqual(info["total_commands_processed"], "116")
            self.assertEqual(info["total_connections_received"], "1")
            self.assertEqual(info["db0"], "keys=101,expires=1,avg_ttl=0")
            self.assertGreater(int(info["total_net_input_bytes"]), 115 * 20)
            self.assertGreater(int(info["total_net_output_bytes"]), 101 * 5)
            self.assertGreater(int(info["used_memory"]), 101 * 40)
            self.assertLessEqual(int(info["used_memory"]), int(info["maxmemory"]))
            self.assertEqual(info["aof_enabled"], "0")
            # Of the same names and in the same sections as Redis has them, but for ours.
            with redis.connect() as other:
                theirs = info_of(other)
            self.assertEqual(
                [name for name in info if name not in theirs and "refract" not in name], ["db0"]
            )
            sections = re.findall("# (.*)", value_of(one.ask("INFO")))
            self.assertEqual(
                [
                    section
                    for section in re.findall("# (.*)", value_of(redis_info(redis)))
                    if section in sections
                ],
                sections,
            )
            self.assertEqual(
                re.findall("# (.*)", value_of(one.ask("INFO", "Stats", "cpu"))), ["Stats\r", "CPU\r"]
            )
            self.assertEqual(value_of(one.ask("INFO", "all")).count("\r\n\r\n#"), len(sections))
            self.assertEqual(one.ask("CONFIG", "RESETSTAT"), b"+OK\r\n")
            info = info_of(one, "stats")
            self.assertEqual(info["expired_keys"], "0")
            self.assertEqual(info["keyspace_hits"], "0")
            self.assertEqual(info["total_commands_processed"], "1")

    def test_info_tells_how_much_a_second_has(self):
        with Door() as door, door.connect() as one:
            end = time.monotonic() + 1
            done = 0
            while time.monotonic() < end:
                one.ask("GET", "k")
                done += 1
            rate = int(info_of(one)["instantaneous_ops_per_sec"])
            self.assertGreater(rate, done / 4)
            self.assertLess(rate, done * 4)
            time.sleep(1.7)
            self.assertLess(int(info_of(one)["instantaneous_ops_per_sec"]), done / 2)

    def test_info_does_not_wait_for_a_server_that_stands_still(self):
        with Door() as door, door.connect() as one:
            one.ask("SET", "k", "v")
            self.assertEqual(info_of(one)["db0"], "keys=1,expires=0,avg_ttl=0")
            with door.stopped_server():
                begin = time.monotonic()
                # What it has told last.
                self.assertEqual(info_of(one)["db0"], "keys=1,expires=0,avg_ttl=0")
                self.assertLess(time.monotonic() - begin, 10)
            one.ask("SET", "l", "v")
            self.assertEqual(info_of(one)["db0"], "keys=2,expires=0,avg_ttl=0")

    def test_settings_are_those_of_the_node(self):
        with Door("--memory-limit", "200MiB", "--memory-eviction", "lru") as door:
            with door.connect() as one:
                one.ask("HELLO", "3")

                def told(*words):
                    return value_of(one.ask("CONFIG", "GET", *words))

                self.assertEqual(told("maxmemory"), {"maxmemory": str(200 << 20)})
                self.assertEqual(told("maxmemory-p*"), {"maxmemory-policy": "allkeys-lru"})
                self.assertEqual(told("port", "PORT"), {"port": str(door.port)})
                self.assertEqual(
                    told("io-threads", "app*"),
                    {"io-threads": "1", "appendonly": "no", "appendfsync": "everysec"},
                )
                fixed = "can't set immutable config"
                self.assertEqual(one.ask("CONFIG", "SET", "maxmemory", "200mb"), b"+OK\r\n")
                self.assertIn(fixed, one.ask("CONFIG", "SET", "maxmemory", "100mb").decode())
                self.assertIn(fixed, one.ask("CONFIG", "SET", "appendonly", "yes").decode())
                self.assertIn(fixed, one.ask("CONFIG", "SET", "slowlog-max-len", "7", "port", "1").decode())
                self.assertEqual(told("slowlog-max-len"), {"slowlog-max-len": "128"})

    def test_memory_of_entries_is_what_the_node_takes_for_them(self):
        # The door waits a second for its node's word, which may be longer on a busy machine.
        def used(one):
            deadline = time.monotonic() + PATIENCE_S
            while "used_memory_dataset" not in (told := info_of(one, "memory")):
                self.assertLess(time.monotonic(), deadline)
            return int(told["used_memory_dataset"])

        with Door() as door, door.connect() as one:
            for size, count in ((1, 60_000), (100, 40_000), (1000, 8000), (100_000, 100)):
                before = used(one)
                for begin in range(0, count, 1000 if size < 10_000 else 10):
                    some = range(begin, min(count, begin + (1000 if size < 10_000 else 10)))
                    one.ask("MSET", *(word for i in some for word in (f"key:{size}:{i:08}", "v" * size)))
                took = used(one) - before
                each = value_of(one.ask("MEMORY", "USAGE", f"key:{size}:{0:08}"))
                self.assertGreater(took, 0.8 * each * count, size)
                self.assertLess(took, 1.25 * each * count + (1 << 20), size)

    def test_what_is_not_tracked_is_said(self):
        with Door() as door, door.connect() as one:
            one.ask("SET", "k", "v")
            self.assertIn(b"not tracked", one.ask("OBJECT", "IDLETIME", "k"))
            self.assertIn(b"SLOWLOG", one.ask("LATENCY", "DOCTOR"))
            self.assertIn(b"refract stat", one.ask("MEMORY", "DOCTOR"))
            seconds, microseconds = value_of(one.ask("TIME"))
            self.assertLess(abs(int(seconds) + int(microseconds) / 1e6 - time.time()), 60)
            for command in ("CLIENT", "COMMAND", "MEMORY"):
                lines = value_of(one.ask(command, "HELP"))
                self.assertTrue(lines[0].startswith(command + " <subcommand>"))
                self.assertEqual(lines[-2:], ["HELP", "    Tells these lines."])


def redis_info(redis):
    with redis.connect() as one:
        return one.ask("INFO")


class Tools(unittest.TestCase):
    def test_redis_cli_watches_and_helps(self):
        with Door() as door:
            redis_cli(door, "set", "k", "v")
            stat = subprocess.Popen(
                ["redis-cli", "-p", str(door.port), "--stat", "-i", "0.1"],
                stdout=subprocess.PIPE,
                text=True,
            )
            lines = [stat.stdout.readline() for _ in range(4)]
            stat.kill()
            stat.wait()
            stat.stdout.close()
            self.assertRegex(lines[2], r"^1 +\S+ +1 +0 +\d+ \(\+0\) +\d+", lines)
            self.assertIn("CLIENT KILL", redis_cli(door, "help", "client"))
            self.assertIn("k", redis_cli(door, "--bigkeys"))
            self.assertIn("k", redis_cli(door, "--memkeys"))
            self.assertIn("maxmemory", redis_cli(door, "-3", "config", "get", "*"))
            # As it asks before it hints.
            self.assertIn("summary", redis_cli(door, "--json", "-3", "command", "docs", "set"))


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
