# SPDX-License-Identifier: Apache-2.0
"""Chance commands at a node of one shard, at one of four, and at Debian's Redis: every reply is the same.

    /usr/bin/python3 -B tests/doors/differential_test.py build/bin/refractd build/bin/refract
        [--seconds N] [--seed SEED] [TEST ...]

Each sequence of commands comes of a seed of its own. One that fails is printed, and belongs into KEPT. What
differs by intent is in DIFFERENCES, and each of it has a test that shows it.
"""

import argparse
import itertools
import random
import re
import time
import unittest

from door import Connection, Door, Redis, request
from node import Programs

SECONDS = 15.0
SEED = None
# Of sequences that failed once: they run first.
KEPT = []

# What is not as in Redis, and why. Each is the name of a test of Differences.
DIFFERENCES = {
    "an_empty_key": "keys have at least one byte",
    "a_long_key": "keys have at most 65,535 bytes",
    "a_long_pattern": "patterns have at most 1,024 bytes, since one is matched with each key",
    "a_moment_that_waited": "a long value has a time to live: its moment is later by what the write took",
    "a_moment_far_away": "store time ends in the year 2262",
    "a_long_addend": "INCRBYFLOAT takes addends of at most 255 bytes",
    "many_keys_at_one_moment": "MSETNX, RENAME and COPY have the limits of transactions",
    "an_order_of_keys": "KEYS, SCAN and RANDOMKEY have an order of their own, and SCAN its own cursors",
    "a_count_behind_an_expiry": "DBSIZE counts what has expired until it is swept, in both at another moment",
    "a_number_of_a_connection": "connections have numbers of their own",
    "a_key_that_came_and_went": "WATCH compares what a key is: absent at both ends is no change",
    "what_cannot_be_queued": "MULTI refuses what is not one moment, or changes how what follows is taken",
    "a_large_transaction": "a transaction has at most 4,096 keys and 16 MiB",
}

TIMES = {b"ttl": 3, b"pttl": 3000, b"expiretime": 3, b"pexpiretime": 3000}
KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"{x}1", b"{x}2", b"\x00\r\n\xff", b"k" * 300]
INTEGERS = [b"0", b"1", b"-1", b"7", b"-30", b"100", b"9223372036854775807", b"-9223372036854775808"]
NO_INTEGERS = [
    b"",
    b"x",
    b"1x",
    b" 1",
    b"1 ",
    b"01",
    b"-0",
    b"+1",
    b"1.0",
    b"9223372036854775808",
    b"1\x00",
]
FLOATS = [b"0.1", b"-2.5", b"3", b"1e3", b"5.0e-3", b"1e300", b"-1e4000", b"0x10", b"inf", b"-inf", b"-0.0"]
NO_FLOATS = [b"", b"nan", b"1..2", b" 1", b"1 ", b"1e5000", b"x", b"1\x00", b"infinit"]
PATTERNS = [
    b"*",
    b"key:*",
    b"?",
    b"[ab]",
    b"[^a]",
    b"[a-c]",
    b"{x}*",
    b"*\xff",
    b"",
    b"[",
    b"\\a",
    b"k*k",
    b"a*",
]

EXPIRE_OPTIONS = [b"NX", b"XX", b"GT", b"LT"] * 4 + [b"EX", b"x\r\ny\x00z"]
COPY_OPTIONS = [[], [], [b"REPLACE"], [b"DB", b"0"], [b"replace", b"db", b"1"]]
COPY_OPTIONS += [[b"DB"], [b"DB", b"x"], [b"DB", b"3000000000"], [b"x"]]
LCS_OPTIONS = [[b"idx"], [b"LEN"], [b"IDX"], [b"WITHMATCHLEN"], [b"MINMATCHLEN", b"2"]]
LCS_OPTIONS += [[b"MINMATCHLEN"], [b"minmatchlen", b"-1"], [b"MINMATCHLEN", b"x"], [b"x"]]
FLUSH_OPTIONS = [[], [], [b"ASYNC"], [b"sync"], [b"x"], [b"SYNC", b"ASYNC"], [b""]]
HELLO_OPTIONS = [[], [b"2"], [b"3"], [b"3"], [b"4"], [b"x"], [b"3", b"SETNAME", b"me"], [b"2", b"x"]]
SCAN_OPTIONS = [[], [b"COUNT", b"0"], [b"COUNT", b"x"], [b"MATCH"], [b"x", b"y"]]


class Line:
    """What a connection has of transactions."""

    def __init__(self):
        self.queue = None  # Commands behind a MULTI.
        self.is_watching = False

    def note(self, words):
        name = words[0].lower()
        if name == b"multi" and len(words) == 1 and self.queue is None:
            self.queue = []
        elif name == b"exec" and len(words) > 1:
            self.queue, self.is_watching = None, False
        elif name in (b"exec", b"discard") and len(words) == 1 and self.queue is not None:
            self.queue, self.is_watching = None, False
        elif name == b"unwatch" and len(words) == 1 and self.queue is None:
            self.is_watching = False
        elif name == b"watch" and self.queue is None:
            self.is_watching = True


class Commands:
    """Chance commands over few keys, so that they meet; with arguments of wrong kinds at times."""

    def __init__(self, chance, expires):
        self.chance = chance
        self.expires = expires
        self.ends_batch = False  # The last one gave a key a time to live that is about to be over.
        self.lines = [Line()]

    def pick(self, *kinds):
        return self.chance.choice(kinds)

    def key(self):
        return self.chance.choice(KEYS)

    def keys(self):
        return [self.key() for _ in range(1 + self.chance.randrange(4))]

    def value(self):
        chance = self.chance
        kind = chance.randrange(10)
        if kind < 4:
            return chance.choice(INTEGERS)
        if kind < 6:
            return chance.choice(FLOATS + NO_FLOATS + NO_INTEGERS)
        if kind < 7:
            return b"v" * chance.choice([100, 3000, 17_000, 70_000])
        return bytes(chance.randrange(256) for _ in range(chance.randrange(40)))

    def integer(self):
        if self.chance.randrange(8) == 0:
            return self.chance.choice(NO_INTEGERS)
        return self.chance.choice(INTEGERS + [b"%d" % self.chance.randrange(-60, 60)])

    def float(self):
        return self.chance.choice(FLOATS + FLOATS + NO_FLOATS + INTEGERS)

    def cased(self, word):
        """In letters of any case."""
        return self.chance.choice([word, word.lower(), word.upper(), word.title()])

    def seconds(self):
        """None is so near to another one that a moment's delay would change which is the greater."""
        chance = self.chance
        if chance.randrange(6) == 0:
            return self.pick(b"0", b"-1", b"-5", *INTEGERS[-2:])
        if chance.randrange(8) == 0:
            return chance.choice(NO_INTEGERS)
        return b"%d" % chance.randrange(1000, 10**9)

    def time_of(self, kind):
        """A number for EX, PX, EXAT or PXAT."""
        chance = self.chance
        is_ms = kind.lower().startswith(b"p")
        if self.expires and kind.lower() == b"px" and chance.randrange(3) == 0:
            self.ends_batch = True
            return b"1"
        seconds = self.seconds()
        if kind.lower() == b"pxat" and len(seconds) > 16:
            # A moment that both can name, and we do not have.
            return b"0"
        if not re.fullmatch(rb"[1-9]\d{3,8}", seconds):
            return seconds
        number = int(seconds) + (3 * 10**9 if kind.lower().endswith(b"at") else 0)
        if self.expires and kind.lower().endswith(b"at") and chance.randrange(6) == 0:
            number = chance.randrange(1, 10**9)
        return b"%d" % (number * (1000 if is_ms else 1))

    def expiry(self):
        kind = self.cased(self.pick(b"EX", b"PX", b"EXAT", b"PXAT"))
        if self.chance.randrange(12) == 0:
            return [kind]
        return [kind, self.time_of(kind)]

    def set_options(self):
        words = []
        for _ in range(self.chance.randrange(4)):
            words += self.pick(
                [self.cased(b"NX")],
                [self.cased(b"XX")],
                [b"GET"],
                [b"get"],
                [b"KEEPTTL"],
                self.expiry(),
                self.expiry(),
            )
        if self.chance.randrange(10) == 0:
            words.append(self.pick(b"PERSIST", b"nonsense", b"", b"NX\x00x", b"NXX"))
        return words

    def getex_options(self):
        words = []
        for _ in range(self.pick(0, 1, 1, 1, 2)):
            words += self.pick(
                [self.cased(b"PERSIST")], self.expiry(), self.expiry(), [b"KEEPTTL"], [b"NX"]
            )
        return words

    def expire_options(self):
        words = []
        while self.chance.randrange(2) == 0:
            words.append(self.cased(self.chance.choice(EXPIRE_OPTIONS)))
        return words

    def expire(self):
        name = self.pick(b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT")
        kind = {b"EXPIRE": b"EX", b"PEXPIRE": b"PX", b"EXPIREAT": b"EXAT", b"PEXPIREAT": b"PXAT"}[name]
        return [name, self.key(), self.time_of(kind), *self.expire_options()]

    def lcs_options(self):
        words = []
        while self.chance.randrange(3) != 0:
            words += self.chance.choice(LCS_OPTIONS)
        return words

    def pairs(self):
        return [word for key in self.keys() for word in (key, self.value())]

    def any_arguments(self):
        """As many and as senseless ones as chance has it."""
        name = self.chance.choice(NAMES)
        kinds = [
            self.key,
            self.integer,
            lambda: self.value()[:50] or b"x",
            lambda: self.pick(b"NX", b"GET"),
        ]
        words = [self.chance.choice(kinds)() for _ in range(self.chance.randrange(6))]
        # Chance numbers would make moments that are near to each other.
        if name in (
            b"EXPIRE",
            b"EXPIREAT",
            b"PEXPIRE",
            b"PEXPIREAT",
            b"SETEX",
            b"PSETEX",
            b"SET",
            b"GETEX",
        ):
            words = words[:1]
        if name in (b"KEYS", b"SCAN"):
            words = []
        # An empty key is in DIFFERENCES.
        return [name, *(word or b"x" for word in words)]

    def may_follow(self, line, words):
        """Whether it shows no difference that is meant."""
        name = words[0].lower()
        if line.queue is not None and (name in NOT_QUEUED or self.ends_batch):
            return False
        # A key that comes and goes while it is watched is in DIFFERENCES; so may be two connections' queues.
        is_watched = any(one.is_watching for one in self.lines)
        is_safe = name in SAFE and (name != b"set" or len(words) <= 3)
        return is_safe or not (is_watched if line.queue is None else len(self.lines) > 1)

    def next(self, number=0):
        """Of the connection with this number."""
        line = self.lines[number]
        while True:
            self.ends_batch = False
            words = self.chance.choices(*KINDS)[0](self)
            if self.may_follow(line, words):
                line.note(words)
                return words


# (how often, what)
KIND_TABLE = [
    (6, lambda c: [c.cased(b"GET"), c.key()]),
    (6, lambda c: [b"SET", c.key(), c.value()]),
    (8, lambda c: [b"SET", c.key(), c.value(), *c.set_options()]),
    (3, lambda c: [b"SETNX", c.key(), c.value()]),
    (2, lambda c: [b"SETEX", c.key(), c.time_of(b"EX"), c.value()]),
    (2, lambda c: [b"PSETEX", c.key(), c.time_of(b"PX"), c.value()]),
    (3, lambda c: [b"GETSET", c.key(), c.value()]),
    (3, lambda c: [b"GETDEL", c.key()]),
    (5, lambda c: [b"GETEX", c.key(), *c.getex_options()]),
    (3, lambda c: [b"MSETNX", *c.pairs()]),
    (2, lambda c: [b"MSET", *c.pairs()]),
    (1, lambda c: [c.pick(b"MSET", b"MSETNX"), *c.pairs(), c.key()]),
    (3, lambda c: [b"MGET", *c.keys()]),
    (5, lambda c: [b"APPEND", c.key(), c.value()]),
    (
        5,
        lambda c: [
            b"SETRANGE",
            c.key(),
            c.pick(c.integer(), b"3", b"40", b"20000", b"536870912"),
            c.value(),
        ],
    ),
    (6, lambda c: [c.pick(b"GETRANGE", b"SUBSTR"), c.key(), c.integer(), c.integer()]),
    (3, lambda c: [b"STRLEN", c.key()]),
    (5, lambda c: [c.pick(b"INCR", b"DECR"), c.key()]),
    (5, lambda c: [c.pick(b"INCRBY", b"DECRBY"), c.key(), c.integer()]),
    (5, lambda c: [b"INCRBYFLOAT", c.key(), c.float()]),
    (8, lambda c: c.expire()),
    (3, lambda c: [b"PERSIST", c.key()]),
    (6, lambda c: [c.cased(c.chance.choice(sorted(TIMES))), c.key()]),
    (3, lambda c: [c.pick(b"DEL", b"UNLINK"), *c.keys()]),
    (2, lambda c: [c.pick(b"EXISTS", b"TOUCH"), *c.keys()]),
    (2, lambda c: [b"TYPE", c.key()]),
    (4, lambda c: [c.pick(b"RENAME", b"RENAMENX"), c.key(), c.key()]),
    (3, lambda c: [b"COPY", c.key(), c.key(), *c.chance.choice(COPY_OPTIONS)]),
    (2, lambda c: [b"LCS", c.key(), c.key(), *c.lcs_options()]),
    (2, lambda c: [b"KEYS", c.chance.choice(PATTERNS)]),
    (1, lambda c: [b"RANDOMKEY"]),
    (1, lambda c: [b"DBSIZE", *c.pick([], [], [b"x"])]),
    (0.3, lambda c: [c.cased(c.pick(b"FLUSHALL", b"FLUSHDB")), *c.chance.choice(FLUSH_OPTIONS)]),
    (1, lambda c: [b"PING", *c.pick([], [c.value()], [b"a", b"b"])]),
    (1, lambda c: [b"ECHO", c.value()]),
    (1, lambda c: [b"SELECT", c.pick(b"0", b"1", b"x", b"3000000000", b"-1")]),
    (1, lambda c: [b"SCAN", c.pick(b"x", b"0", b"-1", b"0 "), *c.chance.choice(SCAN_OPTIONS)]),
    (1, lambda c: [b"CLIENT", *c.pick([b"ID"], [b"GETNAME"], [b"SETNAME", b"me"], [b"SETNAME", b"a b"])]),
    (1, lambda c: [b"HELLO", *c.chance.choice(HELLO_OPTIONS)]),
    (1, lambda c: [b"nonsense", *c.keys()]),
    (4, lambda c: c.any_arguments()),
    (4, lambda c: [b"WATCH", *c.keys()]),
    (1, lambda c: [b"UNWATCH"]),
    (8, lambda c: [c.cased(b"MULTI")]),
    (8, lambda c: [c.cased(b"EXEC")]),
    (1, lambda c: [b"DISCARD"]),
    (1, lambda c: [b"WAIT", b"0", c.pick(b"0", b"x", b"-1")]),
    (1, lambda c: [c.pick(b"EXEC", b"DISCARD", b"WATCH", b"MULTI", b"UNWATCH"), *c.pick([], [b"x"])]),
]
# These are in DIFFERENCES, and what ends a moment later is behind its end in one of them alone.
NOT_QUEUED = set(b"keys randomkey dbsize scan hello lcs".split())
# They take no key away.
SAFE = set(
    b"get set setnx mget append strlen incr incrby incrbyfloat decr decrby exists mset msetnx ttl persist "
    b"watch unwatch multi exec discard ping echo type touch getrange".split()
)
KINDS = ([kind for _, kind in KIND_TABLE], [weight for weight, _ in KIND_TABLE])
NAMES = (
    b"APPEND COPY DECR DECRBY DEL ECHO EXISTS EXPIRE EXPIREAT EXPIRETIME GET GETDEL GETEX "
    b"GETRANGE GETSET INCR INCRBY INCRBYFLOAT KEYS LCS MGET MSET MSETNX PERSIST PEXPIRE PEXPIREAT "
    b"PEXPIRETIME PING PSETEX PTTL RANDOMKEY RENAME RENAMENX SCAN SELECT SET SETEX SETNX "
    b"SETRANGE STRLEN SUBSTR TOUCH TTL TYPE UNLINK"
).split()


def elements(reply):
    """Of an array of bulk strings."""
    found, at = [], reply.find(b"\r\n") + 2
    for _ in range(int(reply[1 : at - 2])):
        end = reply.find(b"\r\n", at)
        size = int(reply[at + 1 : end])
        found.append(reply[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return found


def parts(reply):
    """The replies in an array."""
    rest = Connection.__new__(Connection)
    end = reply.find(b"\r\n") + 2
    rest.came = reply[end:]
    return [rest.reply() for _ in range(int(reply[1 : end - 2]))]


def is_same(words, got, wanted, queue=None):
    """But for what DIFFERENCES has."""
    if got == wanted:
        return True
    name = words[0].lower()
    if name == b"exec" and queue and got[:1] == wanted[:1] == b"*":
        ours, theirs = parts(got), parts(wanted)
        return len(ours) == len(theirs) == len(queue) and all(map(is_same, queue, ours, theirs))
    if name in TIMES and got[:1] == wanted[:1] == b":":
        one, other = int(got[1:]), int(wanted[1:])
        return one >= 0 and other >= 0 and abs(one - other) <= TIMES[name]
    if name == b"keys" and got[:1] == wanted[:1] == b"*":
        return sorted(elements(got)) == sorted(elements(wanted))
    if name == b"randomkey" and got[:1] == wanted[:1] == b"$":
        return got[:3] != b"$-1" and wanted[:3] != b"$-1"
    if name == b"dbsize":
        return got[:1] == wanted[:1] == b":"
    if name == b"scan":
        return got[:1] == wanted[:1] == b"*"
    if name == b"hello":
        told = re.compile(rb"(\$2\r\nid\r\n:|\$7\r\nversion\r\n\$\d\r\n)[\d.]+")
        return told.sub(b"", got) == told.sub(b"", wanted)
    if name == b"client" and words[1:2] == [b"ID"]:
        return got[:1] == wanted[:1] == b":"
    return False


class Beside:
    """A connection to each."""

    def __init__(self, servers):
        self.connections = {name: server.connect() for name, server in servers.items()}
        self.queue = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections.values():
            connection.__exit__()

    def ask_all(self, *words):
        return {name: one.ask(*words) for name, one in self.connections.items()}

    def compare(self, words, done):
        """What is wrong with the replies to the command behind those that were `done`; None: nothing."""
        replies = {name: one.reply() for name, one in self.connections.items()}
        wanted = replies.pop("redis")
        done.append(shown(words))
        queue = self.queue
        if wanted == b"+QUEUED\r\n":
            self.queue.append(words)
        elif words[0].lower() == b"multi" and wanted == b"+OK\r\n":
            self.queue = []
        for name, got in replies.items():
            if not is_same(words, got, wanted, queue):
                before = "\n".join(repr(one) for one in done[-60:])
                return f"{before}\n{name}: {got[:300]!r}\nRedis: {wanted[:300]!r}"
        return None

    def begin(self, protocol):
        """Nothing is there."""
        for one in self.connections.values():
            if protocol == 3:
                one.ask("HELLO", "3")
            if keys := elements(one.ask("KEYS", "*")):
                one.ask("DEL", *keys)

    def send(self, data, chance):
        for one in self.connections.values():
            rest = data
            while rest:
                cut = chance.randrange(1, 400) if chance.random() < 0.1 else len(rest)
                one.send(rest[:cut])
                rest = rest[cut:]


def sent(words, chance):
    """As an array, or as a line."""
    if chance.random() < 0.1 and all(re.fullmatch(rb"[a-zA-Z0-9:{}.*-]{1,1000}", word) for word in words):
        return b" ".join(words) + chance.choice([b"\r\n", b"\n"])
    return request(*words)


def shown(words):
    return b" ".join(word if len(word) < 60 else word[:50] + b"...%d" % len(word) for word in words)


def run_sequence(servers, seed):
    """None, or what is wrong."""
    chance = random.Random(seed)
    protocol = chance.choice([2, 3])
    commands = Commands(chance, expires=chance.random() < 0.4)
    done = []
    with Beside(servers) as all_of_them:
        all_of_them.begin(protocol)
        for _ in range(chance.randrange(1, 30)):
            batch = []
            for _ in range(chance.choice([1, 2, 5, 20])):
                batch.append(commands.next())
                if commands.ends_batch:
                    break
            all_of_them.send(b"".join(sent(words, chance) for words in batch), chance)
            for words in batch:
                if wrong := all_of_them.compare(words, done):
                    return wrong
            if commands.ends_batch:
                # It is over for all of them.
                time.sleep(0.02)
    return None


def run_two(servers, seed):
    """As run_sequence, of two connections that take turns, so that they change what the other one watches."""
    chance = random.Random(seed)
    commands = Commands(chance, expires=False)
    commands.lines.append(Line())
    done = []
    with Beside(servers) as one, Beside(servers) as other:
        one.begin(2)
        other.begin(2)
        for _ in range(chance.randrange(1, 200)):
            number = chance.randrange(2)
            words = commands.next(number)
            # A protocol is the connection's, and a moment's delay must not be between two.
            if words[0].lower() == b"hello" or commands.ends_batch:
                continue
            line = (one, other)[number]
            line.send(sent(words, chance), chance)
            if wrong := line.compare(words, done):
                return f"connection {number}: {wrong}"
            done[-1] = b"%d " % number + done[-1]
    return None


class Sequences(unittest.TestCase):
    def test_replies_are_those_of_redis(self):
        self.compare(run_sequence, SECONDS)

    def test_replies_to_two_that_watch_are_those_of_redis(self):
        self.compare(run_two, SECONDS / 2)

    def compare(self, run, seconds):
        first = random.SystemRandom().randrange(1 << 40)
        seeds = itertools.chain(KEPT, itertools.count(first)) if SEED is None else [SEED]
        print(f"seeds from {first} on", flush=True)
        with Door() as one, Door("--server-shards", "4") as four, Redis("--databases", "1") as redis:
            servers = {"one shard": one, "four shards": four, "redis": redis}
            end = time.monotonic() + seconds
            for count, seed in enumerate(seeds):
                if count > len(KEPT) and time.monotonic() > end:
                    break
                if wrong := run(servers, seed):
                    self.fail(f"seed {seed}\n{wrong}")
        print(f"{count} sequences", flush=True)


class Differences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.door, cls.redis = Door(), Redis("--databases", "1")
        cls.ours, cls.theirs = cls.door.connect(), cls.redis.connect()

    @classmethod
    def tearDownClass(cls):
        for one in (cls.ours, cls.theirs, cls.door, cls.redis):
            one.__exit__(None, None, None)

    def ask(self, *words):
        return self.ours.ask(*words), self.theirs.ask(*words)

    def test_each_has_a_test(self):
        for name in DIFFERENCES:
            self.assertTrue(hasattr(self, f"test_{name}"), name)

    def test_an_empty_key(self):
        for words in (
            ["SET", "", "v"],
            ["INCR", ""],
            ["APPEND", "", "v"],
            ["EXPIRE", "", "100"],
            ["GET", ""],
        ):
            got, wanted = self.ask(*words)
            self.assertEqual(got, b"-ERR keys have at least one byte\r\n")
            self.assertNotEqual(wanted[:1], b"-" if words[0] != "INCR" else b"+")

    def test_a_long_key(self):
        for words in (
            ["SET", "k" * 65_536, "v"],
            ["GETSET", "k" * 65_536, "v"],
            ["SETNX", "k" * 65_536, "v"],
        ):
            got, wanted = self.ask(*words)
            self.assertIn(b"keys have at most 65535 bytes", got)
            self.assertNotEqual(wanted[:1], b"-")
        self.assertEqual(*self.ask("SET", "k" * 65_535, "v"))

    def test_a_long_pattern(self):
        got, wanted = self.ask("KEYS", "x" * 1025)
        self.assertEqual(got, b"-ERR patterns have at most 1024 bytes\r\n")
        self.assertEqual(wanted, b"*0\r\n")
        self.assertEqual(*self.ask("KEYS", "x" * 1024))

    def test_a_moment_that_waited(self):
        """That of a short one does not move."""
        for value in ("v", "v" * 20_000):
            words = ["SET", "waited", value, "PXAT", "5000000000000"]
            with self.door.stopped_server():
                self.ours.send(request(*words))
                time.sleep(0.1)
            self.assertEqual(self.ours.reply(), self.theirs.ask(*words))
            got, wanted = self.ask("PEXPIRETIME", "waited")
            self.assertEqual(wanted, b":5000000000000\r\n")
            if value == "v":
                self.assertEqual(got, wanted)
            else:
                self.assertGreaterEqual(int(got[1:]), 5_000_000_000_050)

    def test_a_moment_far_away(self):
        self.assertEqual(*self.ask("SET", "far", "v", "PXAT", "9223372036854775807"))
        got, wanted = self.ask("PEXPIRETIME", "far")
        self.assertEqual(wanted, b":9223372036854775807\r\n")
        self.assertEqual(time.gmtime(int(got[1:]) // 1000).tm_year, 2262)

    def test_a_long_addend(self):
        addend = "1." + "0" * 254
        got, wanted = self.ask("INCRBYFLOAT", "float", addend)
        self.assertEqual(got, b"-ERR value is not a valid float\r\n")
        self.assertEqual(wanted, b"$1\r\n1\r\n")
        self.ask("SET", "float", "0")
        self.assertEqual(*self.ask("INCRBYFLOAT", "float", addend[:255]))

    def test_many_keys_at_one_moment(self):
        wrong = b"at most 4096 conditions and writes (MSETNX has two a key), and 16 MiB of keys and values"

        def pairs(count):
            return [word for i in range(count) for word in (f"m{i}", "v")]

        for words in (pairs(2049), pairs(4097), ["m0", "v" * (17 << 20)]):
            got, wanted = self.ask("MSETNX", *words)
            self.assertIn(wrong, got)
            self.assertEqual(wanted, b":1\r\n")
            self.assertEqual(self.ours.ask("EXISTS", "m0", "m2048"), b":0\r\n")
            self.theirs.ask("DEL", *words[::2])
        self.assertEqual(*self.ask("MSETNX", *pairs(2048)))
        self.assertEqual(*self.ask("SET", "long", "v" * (17 << 20)))
        for words in (["RENAME", "long", "to"], ["COPY", "long", "to"]):
            got, wanted = self.ask(*words)
            self.assertIn(wrong, got)
            self.assertNotEqual(wanted[:1], b"-")
        self.assertEqual(self.ours.ask("STRLEN", "long"), b":%d\r\n" % (17 << 20))
        # Keys and value of the longest have so much together.
        longest = "v" * ((16 << 20) - len("longest" + "longest" + "to"))
        self.assertEqual(*self.ask("SET", "longest", longest))
        self.assertEqual(*self.ask("COPY", "longest", "to", "REPLACE"))
        self.assertEqual(*self.ask("RENAME", "to", "longest"))
        self.assertEqual(self.ours.ask("STRLEN", "longest"), b":%d\r\n" % len(longest))
        self.ask("DEL", "long", "longest")

    def test_an_order_of_keys(self):
        names = [f"order:{i}" for i in range(200)]
        self.assertEqual(*self.ask("MSET", *(word for name in names for word in (name, "v"))))
        got, wanted = self.ask("KEYS", "order:*")
        self.assertNotEqual(got, wanted)
        self.assertEqual(sorted(elements(got)), sorted(elements(wanted)))
        self.assertEqual(len(elements(got)), 200)
        found = {self.ours.ask("RANDOMKEY") for _ in range(300)}
        self.assertGreater(len(found), 20)
        for reply in found:
            self.assertEqual(self.theirs.ask("EXISTS", reply.split(b"\r\n", 1)[1][:-2]), b":1\r\n")

    def test_a_count_behind_an_expiry(self):
        """Neither tells when it counts what has expired; a key that was looked for counts in neither."""
        before = self.ask("DBSIZE")
        self.assertEqual(*self.ask("SET", "brief", "v", "PX", "1"))
        counts = self.ask("DBSIZE")
        for count, one in zip(counts, before):
            self.assertIn(int(count[1:]) - int(one[1:]), (0, 1))
        time.sleep(0.05)
        self.assertEqual(*self.ask("EXISTS", "brief"))
        self.assertEqual(*self.ask("KEYS", "brie*"))

    def test_a_key_that_came_and_went(self):
        """Nothing is left behind by which it could be told; what was there and is made again is told."""
        for before, wanted_of_us in (
            (["DEL", "fleeting"], b"*1\r\n+OK\r\n"),
            (["SET", "fleeting", "v"], b"*-1\r\n"),
        ):
            self.ask(*before)
            self.assertEqual(*self.ask("WATCH", "fleeting"))
            for words in (
                ["SET", "fleeting", "v"],
                ["DEL", "fleeting"],
                ["MULTI"],
                ["SET", "guarded", "v"],
            ):
                self.assertEqual(*self.ask(*words))
            got, wanted = self.ask("EXEC")
            self.assertEqual((got, wanted), (wanted_of_us, b"*-1\r\n"))
            for one in (self.ours, self.theirs):
                one.ask("DEL", "guarded", "fleeting")

    def test_what_cannot_be_queued(self):
        for words in (
            ["KEYS", "*"],
            ["RANDOMKEY"],
            ["DBSIZE"],
            ["SCAN", "0"],
            ["LCS", "a", "b"],
            ["HELLO", "2"],
            ["CLIENT", "REPLY", "ON"],
            ["CLIENT", "LIST"],
            ["CLIENT", "KILL", "ID", "0"],
            ["CONFIG", "RESETSTAT"],
            ["MEMORY", "USAGE", "a"],
            ["OBJECT", "ENCODING", "a"],
        ):
            self.assertEqual(*self.ask("MULTI"))
            got, wanted = self.ask(*words)
            self.assertEqual(got, b"-ERR Command not allowed inside a transaction\r\n")
            self.assertEqual(wanted, b"+QUEUED\r\n")
            self.assertEqual(*self.ask("SET", "unqueued", "v"))
            got = self.ours.ask("EXEC")
            self.assertEqual(got, b"-EXECABORT Transaction discarded because of previous errors.\r\n")
            self.theirs.ask("DISCARD")
            self.assertEqual(self.ours.ask("EXISTS", "unqueued"), b":0\r\n")

    def test_a_large_transaction(self):
        limits = (
            b"at most 4096 keys, of which one that is read and written counts twice, and 16 MiB of keys"
        )
        queues = {
            "keys": [["SET", f"l{i}", "v"] for i in range(4097)],
            "bytes": [["SET", f"l{i}", "v" * (1 << 20)] for i in range(17)],
            "both": [["INCR", f"l{i}"] for i in range(2049)],
            "a long value": [["APPEND", "l0", "v" * (7 << 20)]] * 3,
        }
        for name, queue in queues.items():
            with self.subTest(name):
                self.theirs.ask("DEL", *(f"l{i}" for i in range(4097)))
                self.assertEqual(*self.ask("MULTI"))
                said = [self.ask(*words) for words in queue]
                got, wanted = self.ask("EXEC")
                self.assertTrue(any(limits in one for one, _ in said) or limits in got, got[:200])
                self.assertEqual(got[:10], b"-EXECABORT")
                self.assertEqual(wanted[:1], b"*")
                self.assertEqual(self.ours.ask("EXISTS", "l0", "l1"), b":0\r\n")
        self.theirs.ask("DEL", *(f"l{i}" for i in range(4097)))
        # As many as there may be.
        for queue in (queues["keys"][:4096], queues["both"][:2048], queues["bytes"][:15]):
            self.assertEqual(*self.ask("MULTI"))
            for words in queue:
                self.assertEqual(*self.ask(*words))
            self.assertEqual(*self.ask("EXEC"))
            self.assertEqual(*self.ask("DEL", *(words[1] for words in queue)))
        got, wanted = self.ask("WATCH", *(f"l{i}" for i in range(4097)))
        self.assertIn(limits, got)
        self.assertEqual(wanted, b"+OK\r\n")
        # It does not run as if it were guarded.
        self.assertEqual(*self.ask("MULTI"))
        self.assertEqual(*self.ask("SET", "l0", "v"))
        got, wanted = self.ask("EXEC")
        self.assertIn(limits, got)
        self.assertEqual(wanted, b"*1\r\n+OK\r\n")
        self.theirs.ask("DEL", "l0")

    def test_a_number_of_a_connection(self):
        for reply in self.ask("CLIENT", "ID"):
            self.assertRegex(reply, rb"^:\d+\r\n$")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("refractd")
    parser.add_argument("refract")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int)
    parser.add_argument("tests", nargs="*")
    chosen = parser.parse_intermixed_args()
    Programs.refractd, Programs.refract = chosen.refractd, chosen.refract
    SECONDS, SEED = chosen.seconds, chosen.seed
    unittest.main(argv=["differential_test.py", *chosen.tests], verbosity=2)
