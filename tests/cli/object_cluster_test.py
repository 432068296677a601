#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract object of three nodes that share their objects, as a person uses it; also while a node is down.

Usage: object_cluster_test.py REFRACTD REFRACT [unittest arguments]
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from listed_nodes import NAMES, ListedNodes  # noqa: E402
from node import PATIENCE_S, Node, Programs, clean_environment, run_client  # noqa: E402

DONE, NO, WRONG, NO_NODE, ELSE = range(5)
MIB = 1024 * 1024


def sentence(done):
    """What was complained about, in one line."""
    return " ".join(done.stderr.decode().split())


class SharedObjectCommands(unittest.TestCase):
    def setUp(self):
        self.listed = ListedNodes()
        self.addCleanup(self.listed.cleanup)
        self.nodes = {}
        for name in NAMES:
            self.start(name)
        self.homes = {}
        number = 0
        while len(self.homes) < len(NAMES):
            number += 1
            row = json.loads(self.nodes["a"].run("cluster", "--nodes", "1", "--json", f"id{number}").stdout)
            self.homes.setdefault(row["nodes"][0], row["key"])
        # Until all have heard from all.
        for name in NAMES:
            for key in self.homes.values():
                self.until(lambda on=name, of=key: self.run_object(on, "get", of).returncode == NO)

    def start(self, name):
        node = Node("--objects-limit", "64MiB", *self.listed.flags(name),
                    # The number of the shard of objects differs from node to node.
                    "--server-shards", str(1 + NAMES.index(name)))
        self.addCleanup(node.__exit__)
        self.nodes[name] = node

    def stop(self, name):
        self.nodes[name].process.send_signal(signal.SIGTERM)
        self.nodes[name].process.wait(PATIENCE_S)

    def until(self, condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def run_object(self, name, *words, data=b""):
        return self.nodes[name].run("object", *words, data=data)

    def do(self, name, *words, data=b""):
        done = self.run_object(name, *words, data=data)
        self.assertEqual(done.returncode, DONE, done.stderr.decode())
        return done.stdout.decode()

    def refused(self, code, says, name, *words, data=b""):
        done = self.run_object(name, *words, data=data)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertIn(says, sentence(done))
        self.assertEqual(done.stdout, b"")

    def row(self, name, *words):
        return json.loads(self.do(name, *words, "--json"))

    def test_what_one_puts_all_get_and_an_id_is_one_object(self):
        for maker in NAMES:
            for home, begin in self.homes.items():
                key = f"{{{begin}}}of-{maker}"
                body = os.urandom(MIB + 1) if home == maker else maker.encode()
                self.do(maker, "put", key, "--metadata", f"by {maker}", "--no-progress", data=body)
                for reader in NAMES:
                    got = self.run_object(reader, "get", key)
                    self.assertEqual((got.returncode, got.stdout), (DONE, body), sentence(got))
                    self.assertEqual(self.do(reader, "get", key, "--metadata"), f"by {maker}")
                    self.refused(NO, "there is an object of this id", reader, "put", key, data=b"another")
                far = run_client("--address", f"tcp:{self.listed.addresses['c']}", "object", "get", key)
                self.assertEqual((far.returncode, far.stdout), (DONE, body), sentence(far))
                digests = {self.do(reader, "digest", key) for reader in NAMES}
                self.assertEqual(len(digests), 1, digests)

    def test_keeps_copies_on_several_nodes(self):
        key = self.homes["b"]
        self.assertEqual(self.do("a", "put", "--copies", "2", key, data=b"12345"), "")
        where = self.do("c", "where", key)
        self.assertIn("  2 of 2 copies", where)
        self.assertEqual(len(where.split("  ")[0].split()), 3, where)
        place = self.row("b", "where", key)
        self.assertEqual((place["copies_wanted"], place["copies"]), (2, 2))
        self.assertEqual(self.do("c", "copies", "--set", "3", key), f"{key}: 3 of 3 copies\n")
        row = self.row("a", "copies", "--set", "1", key)
        self.assertEqual(row["copies_wanted"], 1)
        self.assertGreaterEqual(row["copies"], 1, "as soon as there are enough")
        # More than there are nodes: it says how many there are, and that these are fewer.
        done = self.run_object("a", "copies", "--set", "4", key)
        self.assertEqual((done.returncode, done.stdout.decode()), (NO, f"{key}: 3 of 4 copies\n"))
        self.refused(NO, "is there, with 3 of 5 copies", "a", "put", "--copies", "5", "another", data=b"1")
        self.refused(WRONG, "--copies: at most 16 copies are kept", "a", "put", "--copies", "17", "x",
                     data=b"1")
        self.refused(WRONG, "how many copies? --set 2, for example", "a", "copies", key)
        self.refused(NO, "cannot set the copies of 'nothing'", "a", "copies", "--set", "2", "nothing")
        self.assertEqual(self.do("a", "copies", "--set", "0", key), f"{key}: 0 of 0 copies\n")
        self.assertNotIn("copies", self.do("a", "where", key))

    def test_says_where_objects_are_and_brings_copies(self):
        key = self.homes["b"]
        self.do("a", "put", key, "--metadata", "m", data=b"12345")
        self.assertEqual(self.do("c", "where", key), f"{key}: a\n")
        self.assertEqual(self.do("c", "ls"), "")
        self.assertEqual(self.do("c", "prefetch", key), "")
        self.assertEqual([line.split()[-1] for line in self.do("c", "ls").splitlines()], [key])
        self.until(lambda: self.do("b", "where", key) in (f"{key}: a c\n", f"{key}: c a\n"))
        place = self.row("b", "where", key)
        self.assertEqual((place["id"], place["body_bytes"], place["metadata_bytes"]), (key, 5, 1))
        self.assertEqual(sorted(place["nodes"]), ["a", "c"])
        self.assertEqual(place["birth"], self.row("c", "ls")["birth"])
        hexed = self.row("b", "where", "--hex", key.encode().hex())
        self.assertEqual((hexed["id_hex"], hexed["birth"]), (key.encode().hex(), place["birth"]))
        # The copy is read while its node's server is stopped, as every object of the host.
        with self.nodes["c"].stopped_server():
            self.assertEqual(self.do("c", "get", key), "12345")

        done = self.run_object("c", "where", "nothing", key)
        self.assertEqual(done.returncode, NO)
        self.assertIn("cannot locate 'nothing': there is no such object", sentence(done))
        self.assertIn(f"{key}: ", done.stdout.decode())
        self.refused(NO, "cannot bring 'nothing' here: there is no such object", "b", "prefetch", "nothing",
                     key)
        self.assertIn(key, self.do("b", "ls"))

    def test_brings_copies_by_the_way_that_was_asked_for_and_shows_the_paths(self):
        body = os.urandom(3 * MIB)
        for number, (way, wanted) in enumerate((("send", "message_ns"), ("read", "read_ns"))):
            for action in ("prefetch", "get"):
                key = f"{{{self.homes['b']}}}{way}{action}"
                self.do("a", "put", key, data=body)
                options = ("--check",) if action == "prefetch" else ()
                done = self.run_object("c", action, key, "--transfer", way, *options)
                self.assertEqual(done.returncode, DONE, sentence(done))
                got = self.run_object("c", "get", key)
                self.assertTrue(got.stdout == body, f"{way} {action} brought other bytes")
            rows = [json.loads(line) for line in self.do("c", "paths", "--json").splitlines()]
            self.assertEqual([row["node"] for row in rows], ["a", "b"])
            points = {point["bytes"]: point for point in rows[0]["curve"]}
            self.assertGreater(points[2 * MIB][wanted], 0)
            self.assertEqual(points[2 * MIB]["read_ns"] > 0, number == 1, "an earlier way is learned too")
            self.assertGreater(rows[0]["round_trip_ns"], 0)
        text = self.do("c", "paths")
        self.assertIn("a: round trip ", text)
        self.assertIn("2.0 MiB", text)
        self.assertIn("b: nothing was pulled from it yet", text)
        self.refused(WRONG, "--transfer is auto, send or read, not 'fast'", "c", "get", "x", "--transfer",
                     "fast")

    def test_ranks_the_nodes_by_the_time_in_which_they_could_have_objects(self):
        def ranked(*words):
            said = self.do("c", "rank", "--for", "1min", "--json", *words)
            return [json.loads(line) for line in said.splitlines()]

        key, other = (f"{{{self.homes['a']}}}{number}" for number in range(2))
        self.do("a", "put", key, data=bytes(MIB))
        rows = ranked(key)
        self.assertEqual(sorted(row["node"] for row in rows), ["a", "b", "c"])
        self.assertEqual(rows[0], {"node": "a", "code": "ok", "missing_objects": 0, "missing_bytes": 0,
                                   "time_ns": 0, "is_guessed": False, "unreachable_objects": 0})
        for row in rows[1:]:
            self.assertEqual((row["code"], row["missing_objects"], row["missing_bytes"]), ("ok", 1, MIB))
            self.assertGreater(row["time_ns"], 0)
            self.assertTrue(row["is_guessed"], "nothing was pulled yet")
        self.do("c", "prefetch", key)
        self.assertEqual([row["node"] for row in ranked(key)], ["a", "c", "b"])
        # What c has pulled from a, it knows of the way there; b knows nothing.
        self.do("a", "put", other, data=bytes(MIB))
        guessed = {row["node"]: row["is_guessed"] for row in ranked(other)}
        self.assertEqual(guessed, {"a": False, "b": True, "c": False})
        lines = self.do("b", "rank", "--for", "1min", key, other).splitlines()
        self.assertEqual(lines[0].split(), ["node", "missing", "bytes", "time"])
        self.assertEqual(lines[1].split(), ["a", "0", "0", "0", "s"])
        # A guess may be less than what was measured.
        self.assertRegex("\n".join(sorted(lines[2:])),
                         r"^b +2 +2,097,152 +~[0-9.]+ [mu]?s\nc +1 +1,048,576 +[0-9.]+ [mu]?s$")

        done = self.run_object("b", "rank", "nothing", key)
        self.assertEqual(done.returncode, NO)
        self.assertIn("'nothing' does not count: no node has it", sentence(done))
        self.assertEqual(done.stdout.decode().splitlines()[1].split()[:2], ["a", "0"])
        with self.nodes["b"].stopped_server():
            # It may still answer before the signal is there.
            self.until(lambda: self.do("a", "rank", "--for", "300ms", key).splitlines()[-1] in
                       ("b     it did not answer in time", "b     it cannot be reached"))
        self.stop("b")
        self.until(lambda: ranked(key)[-1] == {"node": "b", "code": "away"})
        self.refused(WRONG, "the object's id is missing", "a", "rank")
        self.refused(WRONG, "at most 256 ids are ranked at once, and 257 are named", "a", "rank",
                     *(str(number) for number in range(257)))

    def test_brings_an_object_to_many_nodes_at_once(self):
        def brought(name, *words):
            done = self.run_object(name, "broadcast", "--json", *words)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            return done.returncode, [(row["node"], row["code"]) for row in rows]

        key, other, third = (f"{{{self.homes['a']}}}{number}" for number in range(3))
        body = os.urandom(4 * MIB + 1)
        self.do("a", "put", key, "--no-progress", data=body)
        self.assertEqual(self.do("b", "broadcast", key), "a  has it\nb  has it\nc  has it\n")
        self.assertEqual(sorted(self.row("b", "where", key)["nodes"]), ["a", "b", "c"])
        for name in NAMES:
            self.assertEqual(self.run_object(name, "get", key).stdout, body)
        self.do("a", "put", other, data=b"12345")
        self.assertEqual(brought("a", other, "c", "a", "c"), (DONE, [("c", "ok"), ("a", "ok")]))
        self.assertEqual(self.row("b", "where", other)["nodes"], ["a", "c"])

        self.refused(NO, "there is no such object", "a", "broadcast", "nothing", "b")
        self.refused(WRONG, "no node of the list is called 'd', 'e'", "a", "broadcast", key, "d", "b", "e")
        self.refused(WRONG, "the object's id is missing", "a", "broadcast")
        self.refused(WRONG, "an object is brought to at most 255 nodes at once, and 256 are named", "a",
                     "broadcast", key, *("b" for _ in range(256)))
        self.refused(WRONG, "the name of a node is never empty", "a", "broadcast", key, "")

        self.do("a", "put", third, data=b"678")
        with self.nodes["b"].stopped_server():
            code, rows = brought("c", third, "--for", "1s")
            self.assertEqual((code, rows[0], rows[2]), (NO, ("a", "ok"), ("c", "ok")))
            self.assertIn(rows[1], (("b", "deadline_exceeded"), ("b", "away")))
        self.stop("b")
        self.until(lambda: brought("c", other, "--for", "1s")[1][1] == ("b", "away"))
        said = self.run_object("c", "broadcast", other, "b", "--for", "1s")
        self.assertEqual((said.returncode, said.stdout), (NO, b"b  cannot be reached\n"))

    def test_waits_on_one_for_what_another_puts(self):
        for command, wait in (("get", "--wait"), ("wait", "--for"), ("prefetch", "--wait")):
            key = f"{{{self.homes['c']}}}{command}"
            waiting = subprocess.Popen(
                [Programs.refract, "--socket", self.nodes["b"].socket, "object", command, key, wait, "1min"],
                stdout=subprocess.PIPE, env=clean_environment())
            self.refused(NO, "did not come", "b", "wait", key, "--for", "50ms")
            self.do("a", "put", key, data=b"it came")
            out = waiting.communicate(timeout=PATIENCE_S)[0]
            self.assertEqual(waiting.returncode, DONE)
            self.assertIn(out, (b"it came",) if command == "get" else (b"",))

    def test_what_one_removes_goes_from_all(self):
        for home, key in self.homes.items():
            self.do("a", "put", key, data=home.encode())
            self.do("b", "prefetch", key)
            removed = self.row("c", "rm", key)
            self.assertEqual((removed["id"], removed["holders"]), (key, 0))
            self.assertNotIn("missed", removed)
            for name in NAMES:
                self.refused(NO, "there is no such object", name, "get", key)
                self.refused(NO, "there is no such object", name, "rm", key)
                self.assertEqual(self.do(name, "ls"), "")
            self.do("b", "put", key, data=b"again")
            self.assertEqual(self.do("a", "get", key), "again")
            self.do("b", "rm", key)

    def test_a_removal_names_the_node_that_is_down_and_goes_on_there(self):
        for number, key in enumerate((self.homes["a"], self.homes["b"])):
            self.do("a", "put", key, data=b"missed")
            self.do("c", "prefetch", key)
            with self.nodes["c"].stopped_server():
                if number == 0:
                    said = self.do("a", "rm", key)
                    self.assertIn(f"{key} is removed", said)
                    self.assertTrue(said.endswith(" c\n"), said)
                else:
                    self.assertEqual(self.row("a", "rm", key)["missed"], ["c"])
            self.until(lambda of=key: self.run_object("c", "get", of).returncode == NO)
            self.refused(NO, "there is no such object", "a", "get", key)

    def test_what_needs_a_node_that_is_down_is_away_and_names_it(self):
        own = f"{{{self.homes['a']}}}own"
        self.do("c", "put", own, data=b"only there")
        self.stop("c")
        self.refused(NO_NODE, "node c cannot be reached", "a", "get", own)
        self.refused(NO_NODE, "node c cannot be reached", "b", "get", own)
        # Whether there is one of these, c decides; of others their home knows.
        missing = self.homes["c"]
        self.refused(NO_NODE, "node c cannot be reached", "a", "get", missing)
        self.refused(NO_NODE, "node c cannot be reached", "a", "where", missing)
        self.refused(NO_NODE, "node c cannot be reached", "a", "prefetch", missing)
        self.refused(NO_NODE, "node c cannot be reached", "a", "wait", missing, "--for", "200ms")
        self.refused(NO, "there is no such object", "a", "get", self.homes["b"])
        self.refused(NO_NODE, "node c cannot be reached", "a", "rm", missing)
        for body in (b"small", bytes(MIB)):
            self.refused(NO_NODE, "node c cannot be reached", "a", "put", missing, "--no-progress", data=body)
        # All that needs the others alone continues.
        for home in ("a", "b"):
            key = self.homes[home]
            self.do("a", "put", key, data=b"continues")
            self.assertEqual(self.do("b", "get", key), "continues")
            self.assertEqual(self.row("b", "rm", key)["missed"], ["c"])

        self.start("c")
        self.until(lambda: self.run_object("a", "get", missing).returncode == NO)
        self.refused(NO, "there is no such object", "a", "get", own)
        self.do("a", "put", missing, data=b"back")
        self.assertEqual(self.do("c", "get", missing), "back")

    def test_the_banner_says_what_is_shared(self):
        self.assertIn(f"sharing  objects, with the nodes that know the secret in {self.listed.secret}\n",
                      self.nodes["a"].banner)
        with Node("--cluster-nodes", "alone=127.0.0.1:1", "--cluster-self", "alone", "--listen-address",
                  "127.0.0.1:0", "--objects-limit", "64MiB") as alone:
            self.assertIn("sharing  no: objects stay on this node (--cluster-secret-file", alone.banner)
            self.assertEqual(alone.run("object", "put", "own", data=b"x").returncode, DONE)
            self.assertEqual(alone.run("object", "get", "another's").returncode, NO)
            for action in ("where", "rank", "broadcast"):
                done = alone.run("object", action, "own")
                self.assertEqual(done.returncode, ELSE, sentence(done))
                self.assertIn("--cluster-secret-file", sentence(done))

    def test_help_names_each_action_and_what_it_takes(self):
        page = run_client("object", "--help").stdout.decode()
        for action, option in (("where", "--json"), ("prefetch", "--wait"), ("rank", "--for"),
                               ("broadcast", "--for"), ("rm", "--birth")):
            self.assertIn(f"  {action} ", page)
            own = run_client("object", action, "--help")
            self.assertEqual(own.returncode, DONE)
            self.assertTrue(own.stdout.decode().startswith(f"refract object {action}: "))
            self.assertIn(option, own.stdout.decode())
            self.assertEqual(run_client("object", action).returncode, WRONG)
        self.assertEqual(self.run_object("a", "where", "x" * 256).returncode, WRONG)
        self.assertEqual(self.run_object("a", "prefetch", "x", "--wait", "soon").returncode, WRONG)


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
