# SPDX-License-Identifier: Apache-2.0
"""Transactions of Redis's clients: of several connections at once, over shards, and beside kills.

    /usr/bin/python3 -B tests/doors/exec_test.py build/bin/refractd build/bin/refract
"""

import os
import random
import signal
import sys
import tempfile
import threading
import time
import unittest

from door import PATIENCE_S, Door, request
from node import Programs
from replies import clients_of, value_of

ROUNDS = int(os.environ.get("REFRACT_DOOR_ROUNDS", 400))
ACCOUNTS = [b"account:%d" % i for i in range(8)]
NIL = b"*-1\r\n"
# Between those that are looked at, so that a look takes a while, in which others change them.
FILLERS = [f"filler:{i}" for i in range(300)]


def number(reply):
    assert reply[:1] == b":", reply
    return int(reply[1:])


class Clients:
    """Threads that call until they are told to end, and what went wrong in them."""

    def __init__(self):
        self.is_over = threading.Event()
        self.wrong = []
        self.threads = []

    def add(self, work, *arguments):
        def run():
            try:
                work(*arguments)
            except BaseException as error:  # Raised again by the thread that waits.
                self.wrong.append(error)
                self.is_over.set()

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def end(self):
        self.is_over.set()
        self.wait()

    def wait(self):
        for thread in self.threads:
            thread.join(2 * PATIENCE_S)
            if thread.is_alive():
                self.wrong.append(TimeoutError("a client has not ended"))
        if self.wrong:
            raise self.wrong[0]


def exec_of(connection, *commands):
    """The reply to EXEC behind these, sent in one piece."""
    connection.send(b"".join(request(*words) for words in (["MULTI"], *commands, ["EXEC"])))
    assert connection.reply() == b"+OK\r\n"
    for words in commands:
        reply = connection.reply()
        assert reply == b"+QUEUED\r\n", (words, reply)
    return connection.reply()


class Watching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.door = Door("--doors-threads", "2", "--server-shards", "2")

    @classmethod
    def tearDownClass(cls):
        cls.door.__exit__(None, None, None)

    def setUp(self):
        self.one, self.other = self.door.connect(), self.door.connect()

    def tearDown(self):
        for connection in (self.one, self.other):
            connection.__exit__()

    def test_exec_is_nil_only_where_a_watched_key_has_changed(self):
        changes = [
            ["SET", "w", "before"],
            ["APPEND", "w", "x"],
            ["EXPIRE", "w", "1000"],
            ["DEL", "w"],
            ["RENAME", "w", "elsewhere"],
            ["PEXPIRE", "w", "-1"],
            ["MSET", "w", "x", "beside", "x"],
        ]
        for words in changes:
            self.other.ask("MSET", "w", "before", "unwatched", "x", "beside", "x")
            self.assertEqual(self.one.ask("WATCH", "w", "absent"), b"+OK\r\n")
            self.other.ask(*words)
            self.assertEqual(exec_of(self.one, ["SET", "made", "x"]), NIL, words)
            self.assertEqual(self.other.ask("EXISTS", "made"), b":0\r\n")
        for words in (["SET", "unwatched", "y"], ["GET", "w"], ["DEL", "absent"], ["PERSIST", "w"]):
            self.other.ask("MSET", "w", "before", "unwatched", "x")
            self.assertEqual(self.one.ask("WATCH", "w", "absent"), b"+OK\r\n")
            self.other.ask(*words)
            self.assertEqual(exec_of(self.one, ["SET", "made", "x"]), b"*1\r\n+OK\r\n", words)
            self.assertEqual(self.other.ask("DEL", "made"), b":1\r\n")

    def test_a_read_of_what_has_changed_is_nil_as_well(self):
        self.other.ask("MSET", "w", "before", "r", "x")
        for queue in ([["GET", "w"]], [["GET", "r"]], [["GET", "w"], ["GET", "r"], ["GET", "absent"]]):
            self.one.ask("WATCH", "w")
            self.assertEqual(exec_of(self.one, *queue)[:1], b"*")
            self.one.ask("WATCH", "w")
            self.other.ask("SET", "w", "after")
            self.assertEqual(exec_of(self.one, *queue), NIL)

    def test_what_is_unwatched_or_discarded_is_forgotten(self):
        self.other.ask("SET", "w", "before")
        for words in (["UNWATCH"], ["MULTI"], ["RESET"]):
            self.one.ask("WATCH", "w")
            self.other.ask("SET", "w", "after")
            self.one.ask(*words)
            if words == ["MULTI"]:
                self.assertEqual(self.one.ask("DISCARD"), b"+OK\r\n")
            self.assertEqual(exec_of(self.one, ["GET", "w"]), b"*1\r\n$5\r\nafter\r\n")
        # Of a connection that ends nothing is left, either.
        with self.door.connect() as third:
            third.ask("WATCH", "w")
            third.send(request("MULTI") + request("SET", "w", "of the dead"))
            third.reply()
        self.assertEqual(self.one.ask("GET", "w"), b"$5\r\nafter\r\n")

    def test_an_end_of_life_of_a_watched_key_is_a_change(self):
        self.other.ask("SET", "w", "v", "PX", "60")
        self.one.ask("WATCH", "w")
        end = time.monotonic() + PATIENCE_S
        while self.other.ask("EXISTS", "w") != b":0\r\n":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(exec_of(self.one, ["SET", "made", "x"]), NIL)
        # It is over already when it is watched.
        self.one.ask("WATCH", "w")
        self.assertEqual(exec_of(self.one, ["SET", "made", "x"], ["DEL", "made"]), b"*2\r\n+OK\r\n:1\r\n")

    def test_what_follows_in_the_pipeline_is_guarded_by_what_was_before(self):
        """WATCH looks behind the writes before it, and EXEC behind WATCH, whatever is under way."""
        for i in range(ROUNDS // 10):
            self.one.send(
                b"".join(
                    request(*words)
                    for words in (
                        ["SET", f"p{i}", "x", "EX", "1000"],
                        ["WATCH", f"p{i}"],
                        ["MULTI"],
                        ["INCR", f"n{i}"],
                        ["GET", f"p{i}"],
                        ["EXEC"],
                        ["WATCH", f"p{i}"],
                        ["SET", f"p{i}", "y"],
                        ["MULTI"],
                        ["INCR", f"n{i}"],
                        ["EXEC"],
                        ["GET", f"n{i}"],
                    )
                )
            )
            replies = [self.one.reply() for _ in range(12)]
            self.assertEqual(replies[5], b"*2\r\n:1\r\n$1\r\nx\r\n")
            self.assertEqual(replies[10:], [NIL, b"$1\r\n1\r\n"])

    def test_an_error_of_one_command_is_its_reply_and_the_others_commit(self):
        reply = exec_of(
            self.one, ["SET", "t", "text"], ["INCR", "t"], ["INCR", "i"], ["GET", "t"], ["DEL", "i", "t"]
        )
        wrong = b"-ERR value is not an integer or out of range\r\n"
        self.assertEqual(reply, b"*5\r\n+OK\r\n" + wrong + b":1\r\n$4\r\ntext\r\n:2\r\n")

    def test_commands_without_a_part_in_the_store_run_in_their_places(self):
        self.one.send(b"".join(request(*words) for words in (["HELLO", "3"], ["CLIENT", "SETNAME", "x"])))
        self.one.reply(), self.one.reply()
        queue = [
            ["PING"],
            ["GET", "absent"],
            ["CLIENT", "GETNAME"],
            ["ECHO", "e"],
            ["INFO", "clients"],
            ["UNWATCH"],
        ]
        reply = exec_of(self.one, *queue)
        self.assertTrue(reply.startswith(b"*6\r\n+PONG\r\n_\r\n$1\r\nx\r\n$1\r\ne\r\n="), reply)
        self.assertTrue(reply.endswith(b"+OK\r\n"))
        self.assertEqual(exec_of(self.one), b"*0\r\n")

    def test_a_list_of_clients_tells_what_is_queued(self):
        for words in (["MULTI"], ["SET", "a", "b"], ["GET", "a"]):
            self.one.ask(*words)
        told = {line["multi"]: line for line in clients_of(self.other)}
        self.assertEqual(set(told), {"2", "-1"})
        self.assertEqual(told["2"]["flags"], "x")
        self.assertGreater(int(told["2"]["multi-mem"]), 0)

    def test_a_queue_without_end_is_refused_and_takes_no_memory(self):
        self.one.ask("MULTI")
        piece = request("APPEND", "k", "v" * 10_000)
        said = set()
        for _ in range(40):
            self.one.send(piece * 100)
            said |= {self.one.reply() for _ in range(100)}
        self.assertEqual(len(said), 2, said)
        held = [int(line["multi-mem"]) for line in clients_of(self.other) if line["multi"] == "0"]
        self.assertEqual(len(held), 1)
        self.assertLess(held[0], 1000)
        self.assertIn(b"EXECABORT", self.one.ask("EXEC"))


class Together(unittest.TestCase):
    """Clients of two threads of the doors, over two shards."""

    @classmethod
    def setUpClass(cls):
        cls.door = Door("--doors-threads", "2", "--server-shards", "2")

    @classmethod
    def tearDownClass(cls):
        cls.door.__exit__(None, None, None)

    def test_counts_of_those_that_watch_are_exact(self):
        keys, clients = [b"count:%d" % i for i in range(6)], Clients()
        done = [0] * 4

        def work(i):
            chance = random.Random(i)
            with self.door.connect() as one:
                while done[i] < ROUNDS // 8:
                    pair = chance.sample(keys, 2)
                    self.assertEqual(one.ask("WATCH", *pair), b"+OK\r\n")
                    values = value_of(one.ask("MGET", *pair))
                    sets = [["SET", key, int(value or 0) + 1] for key, value in zip(pair, values)]
                    reply = exec_of(one, *sets)
                    self.assertIn(reply, (NIL, b"*2\r\n+OK\r\n+OK\r\n"))
                    done[i] += 1 if reply != NIL else 0

        for i in range(4):
            clients.add(work, i)
        clients.wait()
        with self.door.connect() as one:
            values = value_of(one.ask("MGET", *keys))
        self.assertEqual(sum(int(value or 0) for value in values), 2 * 4 * (ROUNDS // 8))

    def test_counts_of_those_that_do_not_watch_are_never_nil(self):
        clients = Clients()

        def work():
            with self.door.connect() as one:
                for _ in range(ROUNDS // 8):
                    reply = exec_of(one, ["INCR", "x:1"], ["INCR", "x:2"], ["GET", "x:1"], ["GET", "x:2"])
                    self.assertEqual(reply[:2], b"*4", reply)
                    first = reply.split(b"\r\n")[1][1:]
                    # All four are of one moment.
                    length = b"$%d" % len(first)
                    self.assertEqual(reply.split(b"\r\n")[1:-1], [b":" + first] * 2 + [length, first] * 2)

        for _ in range(4):
            clients.add(work)
        clients.wait()
        with self.door.connect() as one:
            self.assertEqual(value_of(one.ask("MGET", "x:1", "x:2")), [str(4 * (ROUNDS // 8))] * 2)

    def test_two_looks_at_what_is_moved_find_it_once(self):
        """One key has two names in turn: at no moment none or both."""
        names, clients, looks = ["name:1", "name:2", "name:3"], Clients(), Clients()
        with self.door.connect() as one:
            one.ask("MSET", *(word for key in FILLERS for word in (key, "x")))
            one.ask("DEL", *names)
            one.ask("SET", names[0], "v")
        asked = [names[0], *FILLERS, names[1], *FILLERS[::-1], names[2]]

        def move():
            turn = list(names)
            with self.door.connect() as one:
                while not clients.is_over.is_set():
                    self.assertEqual(one.ask("RENAME", *turn[:2]), b"+OK\r\n")
                    turn.append(turn.pop(0))

        def look(connection):
            return value_of(connection.ask("MGET", *asked)).count("v")

        def look_in_exec(connection):
            queue = [["EXISTS", names[0]], ["MGET", *FILLERS], ["EXISTS", *names[1:]]]
            first, _, others = value_of(exec_of(connection, *queue))
            return first + others

        def work(looking):
            with self.door.connect() as one:
                for _ in range(ROUNDS // 2):
                    self.assertEqual(looking(one), 1)

        clients.add(move)
        looks.add(work, look)
        looks.add(work, look_in_exec)
        try:
            looks.wait()
        finally:
            clients.end()

    def test_keys_that_are_set_or_erased_together_are_seen_together(self):
        keys = [f"together:{i}" for i in range(5)]
        clients, looks = Clients(), Clients()

        def change():
            with self.door.connect() as one:
                for i in range(1 << 60):
                    if clients.is_over.is_set():
                        break
                    self.assertEqual(
                        one.ask("MSET", *(word for key in keys for word in (key, i))), b"+OK\r\n"
                    )
                    if i % 3 == 0:
                        self.assertEqual(one.ask("DEL", *keys, "absent"), b":5\r\n")
                    if i % 3 == 1:
                        self.assertEqual(one.ask("UNLINK", *keys, keys[0]), b":5\r\n")

        def look():
            with self.door.connect() as one:
                for _ in range(ROUNDS // 2):
                    found = value_of(one.ask("MGET", *(word for key in keys for word in (key, *FILLERS))))
                    self.assertEqual(len(set(found[:: len(FILLERS) + 1])), 1)

        clients.add(change)
        looks.add(look)
        looks.add(look)
        try:
            looks.wait()
        finally:
            clients.end()


class Deaths(unittest.TestCase):
    """Money goes from account to account while the server is killed. Its sum is the same at each look, no
    transfer happens twice or in half, and none is told to have failed since it has happened."""

    def until_it_serves(self, door):
        """A plain write that was under way at the kill breaks its connection."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                with door.connect() as one:
                    return self.assertEqual(one.ask("SET", "again", "v"), b"+OK\r\n")
            except ConnectionError:
                self.assertLess(time.monotonic(), end)

    def run_bank(self, *flags):
        restarts = ("--restart-limit", "1000", "--restart-backoff", "0ns")
        with Door("--doors-threads", "2", "--server-shards", "2", *restarts, *flags) as door:
            clients = Clients()
            with door.connect() as one:
                one.ask("MSET", *(word for key in ACCOUNTS for word in (key, 100)))
            made, unknown = [0] * 3, [0] * 3

            def transfer(i):
                """Each has a count of its own, which no other writes: a nil would be its own doing."""
                chance, own = random.Random(i), b"own:%d" % i
                connection = door.connect()
                while not clients.is_over.is_set():
                    amount = chance.randrange(1, 10)
                    giver, taker = chance.sample(ACCOUNTS, 2)
                    try:
                        if chance.random() < 0.5:
                            connection.ask("WATCH", own)
                        reply = exec_of(
                            connection, ["DECRBY", giver, amount], ["INCRBY", taker, amount], ["INCR", own]
                        )
                        self.assertNotEqual(reply, NIL, "nothing but its own commit has changed it")
                        self.assertEqual(reply[:2], b"*3", reply)
                        made[i] += 1
                        told = int(reply.split(b"\r\n")[3][1:])
                        self.assertTrue(
                            made[i] <= told <= made[i] + unknown[i], (told, made[i], unknown[i])
                        )
                    except ConnectionError:
                        # Of this one it is not known, and that is said so.
                        unknown[i] += 1
                        connection = door.connect()
                connection.__exit__()

            def look():
                with door.connect() as one:
                    while not clients.is_over.is_set():
                        values = value_of(one.ask("MGET", *ACCOUNTS))
                        self.assertEqual(sum(map(int, values)), 100 * len(ACCOUNTS))

            for i in range(3):
                clients.add(transfer, i)
            clients.add(look)
            try:
                for _ in range(max(4, ROUNDS // 50)):
                    time.sleep(random.uniform(0.05, 0.4))
                    os.kill(door.server_now(), signal.SIGKILL)
                    self.until_it_serves(door)
            finally:
                clients.end()
            with door.connect() as one:
                counts = [int(value or 0) for value in value_of(one.ask("MGET", "own:0", "own:1", "own:2"))]
            for count, of_one, open_ones in zip(counts, made, unknown):
                self.assertTrue(of_one <= count <= of_one + open_ones, (count, of_one, open_ones))
            print(f"{sum(made)} transfers, {sum(unknown)} of which it was not known", flush=True)

    def test_transfers_are_whole_and_happen_once(self):
        self.run_bank()

    def test_the_same_with_a_log(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_bank("--data-durability", "everysec", "--data-folder", folder + "/log")

    def test_a_transaction_waits_for_the_next_server(self):
        with Door("--server-shards", "2") as door, door.connect() as one:
            one.ask("MSET", "a", "1", "b", "2")
            one.ask("WATCH", "a", "b")
            os.kill(door.server_now(), signal.SIGKILL)
            self.assertEqual(exec_of(one, ["INCR", "a"], ["INCR", "b"]), b"*2\r\n:2\r\n:3\r\n")
            one.ask("WATCH", "a", "b")
            with door.stopped_server():
                self.assertEqual(exec_of(one, ["GET", "a"], ["GET", "b"]), b"*2\r\n$1\r\n2\r\n$1\r\n3\r\n")
                self.assertEqual(
                    one.ask("MGET", "a", "b", "absent"), b"*3\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n"
                )


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1], sys.argv[2]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
