# SPDX-License-Identifier: Apache-2.0
"""FLUSHALL: what was there is gone, also where the server is killed meanwhile, and what came later stays.

    /usr/bin/python3 -B tests/doors/flush_test.py build/bin/refractd build/bin/refract
"""

import os
import signal
import sys
import tempfile
import threading
import time
import unittest

from door import PATIENCE_S, Door, children_of, request
from node import Programs

KILLS = 20
KEYS = int(os.environ.get("REFRACT_DOOR_FLUSHED", 60_000))


def filled(one, kind, count):
    """So many keys of this kind."""
    for begin in range(0, count, 1000):
        keys = range(begin, min(begin + 1000, count))
        one.send(b"".join(request("SET", f"{kind}:{i}", kind) for i in keys))
        for _ in keys:
            assert one.reply() == b"+OK\r\n"


def still_there(one, kind, count):
    """How many of them."""
    there = 0
    for begin in range(0, count, 500):
        reply = one.ask("EXISTS", *(f"{kind}:{i}" for i in range(begin, min(begin + 500, count))))
        there += int(reply[1:])
    return there


class Flush(unittest.TestCase):
    def test_what_stands_before_it_in_a_pipeline_goes_and_what_stands_behind_stays(self):
        with Door("--server-shards", "3", "--doors-threads", "2") as door, door.connect() as one:
            for name in ("FLUSHALL", "FLUSHDB", "flushall"):
                one.send(
                    b"".join(request("SET", f"before:{i}", "x") for i in range(200))
                    + request(name, "ASYNC")
                    + b"".join(request("SET", f"behind:{i}", "x") for i in range(200))
                    + request("DBSIZE")
                )
                replies = [one.reply() for _ in range(402)]
                self.assertEqual(replies, [b"+OK\r\n"] * 401 + [b":200\r\n"])
                self.assertEqual(still_there(one, "before", 200), 0)
                self.assertEqual(still_there(one, "behind", 200), 200)

    def test_another_connection_sees_nothing_older_behind_the_reply(self):
        with Door("--doors-threads", "2") as door, door.connect() as one, door.connect() as other:
            filled(one, "old", 5000)
            self.assertEqual(one.ask("FLUSHALL"), b"+OK\r\n")
            self.assertEqual(still_there(other, "old", 5000), 0)
            self.assertEqual(other.ask("KEYS", "*"), b"*0\r\n")
            self.assertEqual(other.ask("RANDOMKEY"), b"$-1\r\n")

    def killed(self, *flags):
        """The server, again and again, while one connection flushes and another one writes."""
        with tempfile.TemporaryDirectory() as folder, Door(
            "--data-folder",
            os.path.join(folder, "data"),
            "--restart-backoff",
            "0ns",
            "--restart-limit",
            "1000",
            *flags,
        ) as door, door.connect() as one:
            filled(one, "old", KEYS)
            is_told, acknowledged, young = threading.Event(), [], []

            def write():
                other = door.connect()
                number = 0
                while len(young) < 100:
                    is_behind = is_told.is_set()
                    try:
                        if other.ask("SET", f"young:{number}", "x") == b"+OK\r\n":
                            acknowledged.append(number)
                            if is_behind:
                                young.append(number)
                    except ConnectionError:
                        # It was not known what became of that.
                        other.socket.close()
                        other = door.connect()
                    number += 1
                other.socket.close()

            writer = threading.Thread(target=write)
            writer.start()
            one.send(request("FLUSHALL"))
            one.socket.settimeout(0.01)
            end = time.monotonic() + PATIENCE_S
            reply, kills = None, 0
            while reply is None and time.monotonic() < end:
                try:
                    reply = one.reply()
                except TimeoutError:
                    before = len(acknowledged)
                    for server in children_of(door.process.pid, "refractd") if kills < KILLS else []:
                        os.kill(server, signal.SIGKILL)
                        kills += 1
                    # The next one serves for as long again.
                    while len(acknowledged) <= before and time.monotonic() < end:
                        time.sleep(0.001)
            is_told.set()
            one.socket.settimeout(PATIENCE_S)
            writer.join(PATIENCE_S)
            self.assertEqual(reply, b"+OK\r\n")
            self.assertGreater(kills, 0, "or nothing was shown")
            self.assertEqual(still_there(one, "old", KEYS), 0)
            self.assertEqual([one.ask("GET", f"young:{i}") for i in young], [b"$1\r\nx\r\n"] * len(young))

    def test_it_ends_across_kills_of_one_shard_with_a_log(self):
        self.killed("--data-durability", "always")

    def test_it_ends_across_kills_of_three_shards_with_a_log(self):
        self.killed("--data-durability", "always", "--server-shards", "3")


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
