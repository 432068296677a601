# SPDX-License-Identifier: Apache-2.0
"""CLIENT LIST and KILL at the door, over the connections of all its threads.

    /usr/bin/python3 -B tests/doors/client_list_test.py build/bin/refractd build/bin/refract
"""

import os
import random
import sys
import threading
import time
import unittest

from door import PATIENCE_S, Door, Redis, request
from node import Programs
from replies import clients_of, fields_of, info_of, value_of

SEED = int(os.environ.get("REFRACT_DOOR_SEED", random.SystemRandom().randrange(1 << 32)))


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
                    victim.send(request("GETDEL", f"k{number}"))
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


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    print(f"REFRACT_DOOR_SEED={SEED}", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
