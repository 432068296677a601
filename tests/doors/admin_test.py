# SPDX-License-Identifier: Apache-2.0
"""Commands of people and of their tools at the door for Redis clients, beside Debian's Redis.

    /usr/bin/python3 -B tests/doors/admin_test.py build/bin/refractd build/bin/refract
"""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

from door import PATIENCE_S, Connection, Door, Redis, request
from node import Programs

SEED = int(os.environ.get("REFRACT_DOOR_SEED", random.SystemRandom().randrange(1 << 32)))

LONG = "x" * 300


def taken(reply, at=0):
    """A reply as a value of Python's, and where the next one begins. A set has the order of its elements."""
    end = reply.index(b"\r\n", at)
    kind, line, at = reply[at : at + 1], reply[at + 1 : end], end + 2
    if kind in b"$=":
        count = int(line)
        return (None, at) if count < 0 else (reply[at : at + count].decode(), at + count + 2)
    if kind == b":":
        return int(line), at
    if kind == b"_":
        return None, at
    if kind not in b"*%~":
        return line.decode(), at
    values = []
    for _ in range((2 if kind == b"%" else 1) * max(int(line), 0)):
        value, at = taken(reply, at)
        values.append(value)
    if kind == b"%":
        return dict(zip(values[::2], values[1::2])), at
    return values, at


def value_of(reply):
    return taken(reply)[0]


def fields_of(line):
    """Those of a line of CLIENT LIST."""
    return dict(field.split("=", 1) for field in line.split(" "))


def clients_of(connection, *words):
    text = value_of(connection.ask("CLIENT", "LIST", *words))
    return [fields_of(line) for line in text.removeprefix("txt:").splitlines()]


def info_of(connection, *sections):
    text = value_of(connection.ask("INFO", *sections)).removeprefix("txt:")
    lines = [line for line in text.split("\r\n") if line and not line.startswith("#")]
    return dict(line.split(":", 1) for line in lines)


SAME = [
    "CLIENT",
    "CLIENT nosuch",
    "CLIENT nosuch x y",
    f"CLIENT {LONG}",
    "CLIENT GETNAME x",
    "CLIENT GETNAME",
    "CLIENT SETNAME a",
    "CLIENT GETNAME",
    "CLIENT SETNAME",
    "CLIENT GETREDIR",
    "CLIENT NO-TOUCH on",
    "CLIENT NO-EVICT on",
    "CLIENT NO-EVICT OFF",
    "CLIENT NO-EVICT x",
    "CLIENT LIST x",
    "CLIENT LIST TYPE",
    "CLIENT LIST TYPE nosuch",
    "CLIENT LIST TYPE pubsub",
    "CLIENT LIST TYPE replica",
    "CLIENT LIST TYPE master",
    "CLIENT LIST TYPE normal x",
    "CLIENT LIST ID",
    "CLIENT LIST ID x",
    "CLIENT LIST ID 1 x",
    "CLIENT LIST ID 999999999",
    "CLIENT KILL",
    "CLIENT KILL 127.0.0.1:1",
    "CLIENT KILL ID",
    "CLIENT KILL ID x",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID -1",
    "CLIENT KILL ID 999999999",
    "CLIENT KILL ID 999999999 ADDR",
    "CLIENT KILL ADDR 127.0.0.1:1 LADDR 127.0.0.1:2",
    "CLIENT KILL TYPE nosuch",
    "CLIENT KILL TYPE replica",
    "CLIENT KILL TYPE pubsub SKIPME no",
    "CLIENT KILL USER nosuch",
    "CLIENT KILL SKIPME x",
    "CLIENT KILL nosuch x",
    "CLIENT REPLY x",
    "CLIENT REPLY ON",
    "CLIENT REPLY",
    "COMMAND nosuch",
    "COMMAND COUNT x",
    "COMMAND DOCS nosuch",
    "COMMAND INFO nosuch ping nosuch",
    "COMMAND INFO client|id client|nosuch nosuch|x",
    "COMMAND GETKEYS",
    "COMMAND GETKEYS get",
    "COMMAND GETKEYS get a",
    "COMMAND GETKEYS get a b",
    "COMMAND GETKEYS nosuch a",
    "COMMAND GETKEYS client nosuch",
    "COMMAND GETKEYS client list",
    "COMMAND GETKEYS ping a",
    "COMMAND GETKEYS mset a b c d",
    "COMMAND GETKEYS mset a b c",
    "COMMAND GETKEYS del a b c d",
    "COMMAND GETKEYS memory usage k",
    "COMMAND GETKEYS object encoding k",
    "COMMAND GETKEYSANDFLAGS set a b",
    "COMMAND GETKEYSANDFLAGS set a b GET",
    "COMMAND GETKEYSANDFLAGS mget a b",
    "COMMAND GETKEYSANDFLAGS ping a",
    "COMMAND LIST FILTERBY",
    "COMMAND LIST FILTERBY x y",
    "COMMAND LIST FILTERBY MODULE json",
    "COMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY PATTERN nosuch*",
    "COMMAND LIST x",
    "CONFIG",
    "CONFIG GET",
    "CONFIG GET nosuch",
    "CONFIG GET appendfsync",
    "CONFIG GET SAVE",
    "CONFIG GET slowlog-max-le[n]",
    "CONFIG GET slowlog-log-slower-than slowlog-log-slower-than",
    "CONFIG SET maxmemory",
    "CONFIG SET maxmemory 1 x",
    "CONFIG SET nosuch 1",
    "CONFIG SET nosuch 1 databases 3",
    "CONFIG SET databases 3",
    "CONFIG SET databases 3 nosuch 4",
    "CONFIG SET slowlog-max-len 5 SLOWLOG-max-len 6",
    "CONFIG SET slowlog-max-len x",
    "CONFIG SET slowlog-max-len 77 slowlog-log-slower-than x",
    "CONFIG GET slowlog-max-len",
    "CONFIG SET slowlog-log-slower-than x",
    "CONFIG SET slowlog-log-slower-than -2",
    "CONFIG SET slowlog-log-slower-than 12345 slowlog-max-len 99",
    "CONFIG GET slowlog-log*",
    "CONFIG SET slowlog-log-slower-than 10000 slowlog-max-len 128",
    "CONFIG SET appendonly no",
    "CONFIG SET save ''",
    "CONFIG RESETSTAT",
    "CONFIG RESETSTAT x",
    "CONFIG REWRITE",
    "CONFIG nosuch",
    "SLOWLOG",
    "SLOWLOG nosuch",
    "SLOWLOG RESET",
    "SLOWLOG LEN",
    "SLOWLOG GET",
    "SLOWLOG GET x",
    "SLOWLOG GET -2",
    "SLOWLOG GET -1",
    "SLOWLOG gEt 1 2",
    "SET k 12345",
    "SET l hello",
    f"SET m {LONG[:44]}",
    f"SET n {LONG[:45]}",
    "SET o 99999999999999999999",
    "SET p 012",
    "OBJECT ENCODING k",
    "OBJECT ENCODING l",
    "OBJECT ENCODING m",
    "OBJECT ENCODING n",
    "OBJECT ENCODING o",
    "OBJECT ENCODING p",
    "OBJECT ENCODING nosuch",
    "OBJECT ENCODING",
    "OBJECT FREQ k",
    "OBJECT FREQ nosuch",
    "OBJECT IDLETIME nosuch",
    "OBJECT REFCOUNT l",
    "OBJECT REFCOUNT nosuch",
    "OBJECT nosuch k",
    "MEMORY USAGE nosuch",
    "MEMORY USAGE nosuch SAMPLES 5",
    "MEMORY USAGE k SAMPLES x",
    "MEMORY USAGE k SAMPLES -1",
    "MEMORY USAGE k SAMPLES",
    "MEMORY USAGE k x",
    "MEMORY PURGE",
    "MEMORY nosuch",
    "DEBUG",
    "DEBUG JMAP",
    "LATENCY LATEST",
    "LATENCY HISTORY x",
    "LATENCY RESET",
    "LATENCY RESET a b",
    "LATENCY GRAPH x",
    "LATENCY HISTOGRAM get-set",
    "LATENCY nosuch",
    "WAIT",
    "WAIT x 1",
    "WAIT 0 x",
    "WAIT 0 -1",
    "WAIT 0 1",
    "WAIT 0 0",
    "WAIT -1 0",
    "WAIT 3 20",
    "TIME x",
    "INFO nosuch",
    "INFO modules",
    "INFO CLUSTER",
    "RESET x",
    "RESET",
    "CLIENT GETNAME",
]


def words_of(line):
    return ["" if word == "''" else word for word in line.split(" ")]


class BesideRedis(unittest.TestCase):
    def test_replies_are_those_of_redis(self):
        with Door("--doors-threads", "2") as door, Redis() as redis:
            for protocol in ("2", "3"):
                with door.connect() as ours, redis.connect() as theirs:
                    for one in (ours, theirs):
                        one.ask("HELLO", protocol)
                    for line in SAME:
                        words = words_of(line)
                        self.assertEqual(ours.ask(*words), theirs.ask(*words), f"{line}, RESP{protocol}")

    def test_lines_are_taken_as_redis_takes_them(self):
        with Door() as door, Redis() as redis:
            for line in (b"client getname", b"client nosuch", b"config get save", b"time x", b"reset"):
                said = []
                for one in (door.connect(), redis.connect()):
                    with one:
                        one.send(line + b"\r\n")
                        said.append(one.reply())
                self.assertEqual(said[0], said[1], line)

    def test_what_is_told_of_each_command_is_what_redis_tells(self):
        def trimmed(docs, ours):
            """Without what is left out here: history, Redis's sentences, subcommands that are not there."""
            left_out = ("summary", "complexity", "history", "doc_flags", "deprecated_since", "replaced_by")
            for name in left_out:
                docs.pop(name, None)
            if "subcommands" in docs:
                docs["subcommands"] = {
                    name: trimmed(docs["subcommands"][name], ours.get("subcommands", {}).get(name, {}))
                    for name in ours["subcommands"]
                    if name in docs["subcommands"]
                }
            return docs

        def without_summaries(ours, theirs):
            """Each has one, and it is not Redis's."""
            self.assertNotIn(ours.pop("summary", ""), ("", theirs.get("summary")))
            for name, docs in ours.get("subcommands", {}).items():
                without_summaries(docs, theirs["subcommands"][name])
            return ours

        def without_notes(info):
            for place in info[8]:
                place.pop("notes", None)
            return info

        with Door() as door, Redis() as redis, door.connect() as one, redis.connect() as other:
            for each in (one, other):
                each.ask("HELLO", "3")
            names = [name for name in value_of(one.ask("COMMAND", "LIST")) if "|" not in name]
            self.assertEqual(len(names), value_of(one.ask("COMMAND", "COUNT")))
            self.assertGreater(len(names), 30)
            docs = value_of(one.ask("COMMAND", "DOCS"))
            self.assertEqual(sorted(docs), sorted(names))
            infos = {info[0]: info for info in value_of(one.ask("COMMAND"))}
            self.assertEqual(sorted(infos), sorted(names))
            for name in names:
                ours, theirs = docs[name], value_of(other.ask("COMMAND", "DOCS", name))[name]
                # That of a later Redis.
                ours.get("subcommands", {}).pop("client|setinfo", None)
                self.assertEqual(without_summaries(ours, theirs), trimmed(theirs, ours), name)
                ours, theirs = infos[name], value_of(other.ask("COMMAND", "INFO", name))[0]
                subcommands = {info[0]: info for info in theirs.pop()}
                mine = {info[0]: info for info in ours.pop() if info[0] != "client|setinfo"}
                self.assertEqual(ours, without_notes(theirs))
                for sub, info in mine.items():
                    self.assertEqual(info, without_notes(subcommands[sub]))
            self.assertIn("config|get", value_of(one.ask("COMMAND", "LIST")))
            found = value_of(one.ask("COMMAND", "LIST", "FILTERBY", "PATTERN", "config|*"))
            self.assertEqual(found, sorted(infos_of("config")))
            self.assertIn("set", value_of(one.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "write")))
            self.assertNotIn("get", value_of(one.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "write")))

    def test_help_has_the_syntax_of_redis_and_sentences_of_its_own(self):
        def syntax_of(lines):
            return [line for line in lines if not line.startswith(" ")]

        def sentences_of(lines):
            """Options of CLIENT begin with a star: they are syntax, too."""
            indented = [line.strip() for line in lines if line.startswith(" ")]
            return {line for line in indented if not line.startswith("*")}

        with Door() as door, Redis() as redis, door.connect() as one, redis.connect() as other:
            for command in ("CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY", "OBJECT", "SLOWLOG"):
                ours, theirs = (value_of(each.ask(command, "HELP")) for each in (one, other))
                # Of these there are not all subcommands here.
                if command in ("CLIENT", "COMMAND", "MEMORY"):
                    self.assertLessEqual(set(syntax_of(ours)), set(syntax_of(theirs)))
                else:
                    self.assertEqual(syntax_of(ours), syntax_of(theirs))
                self.assertEqual(sentences_of(ours) & sentences_of(theirs), set(), command)

    def test_replies_that_are_not_wanted_do_not_come(self):
        chance = random.Random(SEED)
        words = [
            ["CLIENT", "REPLY", "ON"],
            ["CLIENT", "REPLY", "OFF"],
            ["CLIENT", "REPLY", "SKIP"],
            ["CLIENT", "REPLY", "nosuch"],
            ["PING"],
            ["SET", "k", "v"],
            ["GET", "k"],
            ["MGET", "k", "l"],
            ["DBSIZE"],
            ["nosuch"],
            ["GET"],
            ["RESET"],
        ]
        with Door() as door, Redis() as redis, redis.connect() as theirs, door.connect() as ours:
            for one in (ours, theirs):
                one.ask("SET", "k", "v")
            for turn in range(200):
                batch = [chance.choice(words) for _ in range(1 + chance.randrange(12))]
                end = [["CLIENT", "REPLY", "ON"], ["ECHO", f"end {turn}"]]
                data = b"".join(request(*each) for each in batch + end)
                said = []
                for one in (ours, theirs):
                    one.send(data)
                    replies = []
                    while not replies or f"end {turn}".encode() not in replies[-1]:
                        replies.append(one.reply())
                    said.append(replies)
                self.assertEqual(said[0], said[1], f"{batch}; REFRACT_DOOR_SEED={SEED}")


def infos_of(command):
    return {"config": ["config|get", "config|help", "config|resetstat", "config|rewrite", "config|set"]}[
        command
    ]


class Clients(unittest.TestCase):
    def setUp(self):
        self.all = []

    def tearDown(self):
        for line in self.all:
            line.socket.close()

    def connected(self, door, by_path=False):
        """One that is closed when the test is over."""
        self.all.append(door.connect(by_path))
        return self.all[-1]

    def test_a_list_has_the_connections_of_all_threads(self):
        with Door("--doors-threads", "3") as door, Redis() as redis, redis.connect() as other:
            lines = [self.connected(door, by_path=i >= 20) for i in range(24)]
            ids = [value_of(line.ask("CLIENT", "ID")) for line in lines]
            lines[3].ask("CLIENT", "SETNAME", "third")
            lines[4].ask("HELLO", "3")
            lines[5].ask("CLIENT", "NO-EVICT", "ON")
            lines[6].ask("GET", "x")
            for asker in (lines[0], lines[4], lines[11]):
                clients = clients_of(asker)
                self.assertEqual([int(client["id"]) for client in clients], sorted(ids))
                # The same fields in the same order.
                self.assertEqual(list(clients[0]), list(clients_of(other)[0]))
            by_id = {int(client["id"]): client for client in clients}
            for line, client_id in zip(lines[:20], ids):
                client = by_id[client_id]
                self.assertEqual(client["addr"], "%s:%d" % line.socket.getsockname())
                self.assertEqual(client["laddr"], "%s:%d" % line.socket.getpeername())
            self.assertEqual(by_id[ids[20]]["addr"], door.path + ":0")
            self.assertEqual(by_id[ids[20]]["flags"], "U")
            self.assertEqual(by_id[ids[3]]["name"], "third")
            self.assertEqual(by_id[ids[3]]["cmd"], "client|setname")
            self.assertEqual(by_id[ids[4]]["resp"], "3")
            self.assertEqual(by_id[ids[5]]["flags"], "e")
            self.assertEqual(by_id[ids[6]]["cmd"], "get")
            self.assertEqual(by_id[ids[11]]["cmd"], "client|list")
            # In the order in which they are asked for.
            asked = [str(ids[7]), str(ids[2]), "999999"]
            self.assertEqual([c["id"] for c in clients_of(lines[0], "ID", *asked)], asked[:2])
            self.assertEqual(len(clients_of(lines[0], "TYPE", "normal")), len(lines))
            own = value_of(lines[7].ask("CLIENT", "INFO"))
            self.assertEqual(fields_of(own.strip())["id"], str(ids[7]))
            self.assertEqual(info_of(lines[0])["connected_clients"], str(len(lines)))

    def test_those_that_are_meant_are_ended(self):
        with Door("--doors-threads", "3") as door, door.connect() as one:
            own = value_of(one.ask("CLIENT", "ID"))

            def lines(count):
                some = [self.connected(door) for _ in range(count)]
                return some, [value_of(line.ask("CLIENT", "ID")) for line in some]

            (first, second, third), ids = lines(3)
            self.assertEqual(one.ask("CLIENT", "KILL", "ID", ids[0]), b":1\r\n")
            self.assertTrue(first.is_at_its_end())
            self.assertEqual(one.ask("CLIENT", "KILL", "ID", ids[0]), b":0\r\n")
            address = "%s:%d" % second.socket.getsockname()
            self.assertEqual(one.ask("CLIENT", "KILL", address), b"+OK\r\n")
            self.assertTrue(second.is_at_its_end())
            self.assertEqual(one.ask("CLIENT", "KILL", address), b"-ERR No such client\r\n")
            address = "%s:%d" % third.socket.getsockname()
            self.assertEqual(one.ask("CLIENT", "KILL", "ADDR", address, "USER", "default"), b":1\r\n")
            self.assertTrue(third.is_at_its_end())
            # The asker alone is left, by itself.
            by_path = self.connected(door, by_path=True)
            by_path.ask("PING")
            some, _ = lines(9)
            here = "%s:%d" % one.socket.getpeername()
            self.assertEqual(one.ask("CLIENT", "KILL", "LADDR", here, "TYPE", "normal"), b":9\r\n")
            for line in some:
                self.assertTrue(line.is_at_its_end())
            self.assertEqual(by_path.ask("PING"), b"+PONG\r\n")
            self.assertEqual(one.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), b":1\r\n")
            self.assertTrue(by_path.is_at_its_end())
            self.assertEqual([client["id"] for client in clients_of(one)], [str(own)])
            # It may end itself; what it has sent behind that does not run.
            one.send(request("CLIENT", "KILL", "ID", own, "SKIPME", "no") + request("SET", "k", "v"))
            self.assertEqual(one.reply(), b":1\r\n")
            self.assertTrue(one.is_at_its_end())
            with door.connect() as other:
                self.assertEqual(other.ask("EXISTS", "k"), b":0\r\n")

    def test_the_answer_comes_when_what_is_under_way_has_ended(self):
        with Door("--doors-threads", "2") as door, door.connect() as one:
            victims = [self.connected(door) for _ in range(4)]
            for number, victim in enumerate(victims):
                victim.ask("SET", f"k{number}", "before")
            with door.stopped_server():
                for number, victim in enumerate(victims):
                    victim.send(request("SET", f"k{number}", "after", "EX", "1000"))
                    # Behind it, and so not begun.
                    victim.send(request("DEL", f"k{number}"))
                time.sleep(0.1)
                one.send(request("CLIENT", "KILL", "TYPE", "normal"))
                one.socket.settimeout(0.3)
                with self.assertRaises(TimeoutError):
                    one.reply()
                one.socket.settimeout(PATIENCE_S)
            self.assertEqual(one.reply(), b":4\r\n")
            for number, victim in enumerate(victims):
                self.assertEqual(one.ask("GET", f"k{number}"), b"$5\r\nafter\r\n")
                self.assertTrue(victim.is_at_its_end())

    def test_those_that_end_each_other_do_not_wait_for_each_other(self):
        with Door("--doors-threads", "3") as door:
            for _ in range(20):
                lines = [self.connected(door) for _ in range(6)]
                for line in lines:
                    line.ask("PING")
                for line in lines:
                    line.send(request("CLIENT", "KILL", "TYPE", "normal"))
                ends = 0
                for line in lines:
                    try:
                        line.reply()
                    except ConnectionError:
                        ends += 1
                self.assertGreaterEqual(ends, 1)
                with door.connect() as one:
                    self.assertEqual(one.ask("PING"), b"+PONG\r\n")

    def test_lists_and_ends_are_asked_for_by_many_at_a_time(self):
        with Door("--doors-threads", "3") as door:
            end, wrong = time.monotonic() + 2, []

            def work(number):
                chance = random.Random(SEED + number)
                try:
                    while time.monotonic() < end:
                        with door.connect() as one:
                            one.ask("CLIENT", "SETNAME", f"n{number}")
                            for _ in range(chance.randrange(1, 10)):
                                clients = clients_of(one)
                                if not any(client["name"] == f"n{number}" for client in clients):
                                    wrong.append(clients)
                                victim = chance.choice(clients)["id"]
                                one.ask("CLIENT", "KILL", "ID", victim)
                                one.ask("SET", f"n{number}", "v")
                except ConnectionError:
                    # Another one has ended it.
                    work(number)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            self.assertEqual(wrong, [])
            with door.connect() as one:
                # That the others have gone may be seen a moment later.
                over = time.monotonic() + PATIENCE_S
                while len(clients_of(one)) > 1 and time.monotonic() < over:
                    time.sleep(0.01)
                self.assertEqual(len(clients_of(one)), 1)


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
            self.assertEqual(value_of(one.ask("INFO", "all")).count("\r\n\r\n#"), len(sections) - 1)
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
    def cli(self, door, *words, **options):
        return subprocess.run(
            ["redis-cli", "-p", str(door.port), *words],
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
            text=True,
            **options,
        ).stdout

    def test_redis_cli_watches_and_helps(self):
        with Door() as door:
            self.cli(door, "set", "k", "v")
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
            self.assertIn("CLIENT KILL", self.cli(door, "help", "client"))
            self.assertIn("k", self.cli(door, "--bigkeys"))
            self.assertIn("k", self.cli(door, "--memkeys"))
            self.assertIn("maxmemory", self.cli(door, "-3", "config", "get", "*"))
            # As it asks before it hints.
            self.assertIn("summary", self.cli(door, "--json", "-3", "command", "docs", "set"))


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    print(f"REFRACT_DOOR_SEED={SEED}", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
