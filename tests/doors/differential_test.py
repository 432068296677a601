# SPDX-License-Identifier: Apache-2.0
"""Chance commands at a node of one shard, at one of four, and at Debian's Redis: every reply is the same.

    /usr/bin/python3 -B tests/doors/differential_test.py build/bin/refractd build/bin/refract
        [--seconds N] [--seed SEED] [TEST ...]

Each sequence of commands comes of a seed of its own. One that fails is printed, and belongs into KEPT. What
differs by intent is in differences_test.py.
"""

import argparse
import itertools
import random
import re
import time
import unittest

from door import Connection, Door, Redis, request
from node import Programs
from replies import elements

SECONDS = 15.0
SEED = None
# Of sequences that failed once: they run first.
KEPT = []

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
NOT_QUEUED = set(b"keys randomkey dbsize scan hello lcs flushall flushdb".split())
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
    def test_a_moment_is_what_was_named_however_long_its_write_waits(self):
        with Door() as door, door.connect() as client:
            client.ask("SET", "copied", "v", "PXAT", "5000000000000")
            long = "v" * 20_000
            for words in (
                ["SET", "waited", "v", "PXAT", "5000000000000"],
                ["SET", "waited", long, "PXAT", "5000000000000"],
                ["COPY", "copied", "waited", "REPLACE"],
            ):
                with door.stopped_server():
                    client.send(request(*words))
                    time.sleep(0.1)
                self.assertNotEqual(client.reply()[:1], b"-", words)
                self.assertEqual(client.ask("PEXPIRETIME", "waited"), b":5000000000000\r\n", words)

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
