# SPDX-License-Identifier: Apache-2.0
"""Commands of people and of their tools at the door, each reply beside that of Debian's Redis.

    /usr/bin/python3 -B tests/doors/beside_redis_test.py build/bin/refractd build/bin/refract
"""

import os
import random
import sys
import time
import unittest

from door import PATIENCE_S, Door, Redis, request
from node import Programs
from replies import value_of

SEED = int(os.environ.get("REFRACT_DOOR_SEED", random.SystemRandom().randrange(1 << 32)))

LONG = "x" * 300

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
    "CLIENT PAUSE",
    "CLIENT PAUSE x",
    "CLIENT PAUSE -1",
    "CLIENT PAUSE 99999999999999999999",
    "CLIENT PAUSE 9223372036854775807",
    "CLIENT PAUSE 0",
    "CLIENT PAUSE 10 nosuch",
    "CLIENT pause 10 WRITE x",
    "CLIENT PAUSE 1 write",
    "CLIENT PAUSE 1 ALL",
    "CLIENT PAUSE 1",
    "CLIENT UNPAUSE",
    "CLIENT UNPAUSE x",
    "CLIENT UNBLOCK",
    "CLIENT UNBLOCK x",
    "CLIENT UNBLOCK 99999",
    "CLIENT UNBLOCK 99999 nosuch",
    "CLIENT UNBLOCK x error",
    "CLIENT unblock 1 TIMEOUT x",
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
    "MEMORY STATS x",
    "FLUSHALL x",
    "FLUSHALL SYNC ASYNC",
    "FLUSHDB ''",
    "FLUSHDB async",
    "FLUSHALL Sync",
    "FLUSHALL",
    "DBSIZE",
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
    "PUBSUB",
    "PUBSUB CHANNELS a b",
    "PUBSUB CHANNELS",
    "PUBSUB NUMSUB",
    "PUBSUB NUMSUB a b",
    "PUBSUB NUMPAT",
    "PUBSUB NUMPAT x",
    "PUBSUB SHARDCHANNELS a b",
    "PUBSUB SHARDNUMSUB a",
    "PUBSUB nosuch",
    "COMMAND GETKEYS ssubscribe a b",
    "COMMAND GETKEYS spublish a b",
    "COMMAND GETKEYS subscribe a",
    "COMMAND GETKEYSANDFLAGS spublish a b",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE a",
    "PUBLISH a",
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
            for command in (
                "CLIENT",
                "COMMAND",
                "CONFIG",
                "LATENCY",
                "MEMORY",
                "OBJECT",
                "PUBSUB",
                "SLOWLOG",
            ):
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

    def test_those_that_want_no_replies_are_read_to_the_end(self):
        """More than may be under way at a time, and no reply that tells of an end."""
        with Door() as door, door.connect() as one, door.connect() as other:
            one.send(request("CLIENT", "REPLY", "OFF"))
            one.send(b"".join(request("SET", f"k{i}", "v" * 100) for i in range(20_000)))
            end = time.monotonic() + PATIENCE_S
            while other.ask("DBSIZE") != b":20000\r\n" and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(other.ask("DBSIZE"), b":20000\r\n")
            skip = request("CLIENT", "REPLY", "SKIP")
            for i in range(20):
                other.send(skip + request("SET", f"k{i}", "w", "EX", "100") + skip + request("RESET"))
                self.assertEqual(other.ask("PING"), b"+PONG\r\n")


def infos_of(command):
    return {"config": ["config|get", "config|help", "config|resetstat", "config|rewrite", "config|set"]}[
        command
    ]


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    print(f"REFRACT_DOOR_SEED={SEED}", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
