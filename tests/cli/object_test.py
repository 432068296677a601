#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract object as a person uses it: with one and two shards of keys, on the node's host and over TCP.

Usage: object_test.py REFRACTD REFRACT [unittest arguments]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import PATIENCE_S, Node, Programs, clean_environment, run_client  # noqa: E402

MIB = 1024 * 1024
DONE, NO, WRONG, _, ELSE = range(5)


def sentence(done):
    """What was complained about, in one line."""
    return " ".join(done.stderr.decode().split())


class Objects:
    """A node with objects, reached in one way."""

    flags = ()
    is_tcp = False

    def setUp(self):
        listen = ("--listen-address", "127.0.0.1:0") if self.is_tcp else ()
        self.node = Node("--objects-limit", "64MiB", *self.flags, *listen)
        self.addCleanup(self.node.__exit__)

    def words(self, *words):
        way = ["--socket", self.node.socket]
        if self.is_tcp:
            way = ["--address", f"refract://{self.node.tcp_address}?transport=tcp"]
        return [Programs.refract, *way, "object", *words]

    def run_object(self, *words, data=b""):
        return subprocess.run(self.words(*words), input=data, capture_output=True, timeout=PATIENCE_S,
                              check=False, env=clean_environment())

    def do(self, *words, data=b""):
        done = self.run_object(*words, data=data)
        self.assertEqual(done.returncode, DONE, done.stderr.decode())
        return done.stdout

    def refused(self, code, says, *words, data=b""):
        done = self.run_object(*words, data=data)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertIn(says, sentence(done))

    def rows(self, *words):
        return [json.loads(line) for line in self.do(*words, "--json").splitlines()]

    def test_what_was_put_is_got_from_files_and_pipes(self):
        with tempfile.TemporaryDirectory() as folder:
            source, copy = os.path.join(folder, "source"), os.path.join(folder, "copy")
            body = os.urandom(5 * MIB + 3)
            with open(source, "wb") as file:
                file.write(body)
            self.do("put", "file", source, "--metadata", "of a file")
            self.do("get", "file", "-o", copy)
            with open(copy, "rb") as file:
                self.assertEqual(file.read(), body)
            self.assertEqual(self.do("get", "file", "--metadata"), b"of a file")
            self.do("put", "pipe", data=body[:1000])
            self.assertEqual(self.do("get", "pipe"), body[:1000])
            self.do("put", "empty", "/dev/null")
            self.assertEqual(self.do("get", "empty"), b"")
            self.refused(WRONG, "is a directory", "put", "folder", folder)
            self.refused(ELSE, "cannot open", "put", "nothing", os.path.join(folder, "nothing"))

    def test_lists_stands_and_removes(self):
        for name in ("a", "b", "tmp:c"):
            self.do("put", name, data=name.encode() * 10)
        self.do("keep", "a")
        by_id = {row["id"]: row for row in self.rows("ls", "--all")}
        self.assertEqual({name: row["body_bytes"] for name, row in by_id.items()},
                         {"a": 10, "b": 10, "tmp:c": 50})
        self.assertEqual([row["is_kept"] for _, row in sorted(by_id.items())], [True, False, False])
        self.assertEqual([row["id"] for row in self.rows("ls", "--prefix", "tmp:")], ["tmp:c"])
        self.assertIn(b"tmp:c", self.do("ls"))
        self.assertEqual(len(self.do("ls", "--limit", "2").splitlines()), 2)
        stat = json.loads(self.do("stat", "--json"))
        self.assertEqual((stat["objects"], stat["used"], stat["kept_bytes"]), (3, 70, 10))
        self.refused(NO, "another birth", "rm", "a", "--birth", str(by_id["b"]["birth"]))
        self.do("rm", "a", "b")
        self.refused(NO, "there is no such object", "rm", "a")
        self.assertEqual(json.loads(self.do("evict", "1KiB", "--json"))["bytes"], 50)
        self.assertEqual(json.loads(self.do("stat", "--json"))["used"], 0)

    def test_an_id_names_one_object(self):
        self.do("put", "once", data=b"first")
        self.refused(NO, "there is an object of this id", "put", "once", data=b"second")
        self.assertEqual(self.do("get", "once"), b"first")
        self.refused(NO, "there is no such object", "get", "twice")
        self.refused(NO, "there is no such object", "digest", "twice")
        self.refused(NO, "there is no such object", "keep", "twice")

    def test_ids_of_any_bytes_are_written_as_digits(self):
        self.do("put", "--hex", "00ff0a", data=b"raw")
        self.assertEqual(self.do("get", "--hex", "00ff0a"), b"raw")
        self.assertIn(b"00ff0a", self.do("ls", "--hex"))
        self.assertEqual([row["id_hex"] for row in self.rows("ls", "--hex")], ["00ff0a"])
        self.refused(WRONG, "hex", "put", "--hex", "0g", data=b"")
        self.refused(WRONG, "255", "get", "x" * 256)
        self.do("put", "--", "-dash", data=b"")

    def test_waits_for_what_comes_later(self):
        waiting = subprocess.Popen(self.words("get", "later", "--wait", "1min"), stdout=subprocess.PIPE,
                                   env=clean_environment())
        self.refused(NO, "did not come", "wait", "later", "--for", "20ms")
        self.do("put", "later", data=b"it came")
        self.assertEqual(waiting.communicate(timeout=PATIENCE_S)[0], b"it came")
        self.assertEqual(waiting.returncode, DONE)
        self.do("wait", "later")

    def test_follows_seals_and_removals_in_their_order(self):
        self.do("put", "old", data=b"1")
        following = subprocess.Popen(self.words("subscribe", "--json", "--limit", "4"),
                                     stdout=subprocess.PIPE, env=clean_environment())
        first = json.loads(following.stdout.readline())
        self.assertEqual((first["what"], first["id"]), ("there", "old"))
        self.do("put", "new", data=b"22")
        self.do("rm", "old")
        self.do("put", "old", data=b"333")
        rest = [json.loads(line) for line in following.communicate(timeout=PATIENCE_S)[0].splitlines()]
        self.assertEqual([(row["what"], row["id"], row["body_bytes"]) for row in rest],
                         [("sealed", "new", 2), ("removed", "old", 1), ("sealed", "old", 3)])

    def test_a_full_store_names_what_takes_its_room(self):
        self.do("put", "kept", "--keep", "--no-progress", data=bytes(48 * MIB))
        self.refused(ELSE, "kept", "put", "more", "--wait", "no", data=bytes(32 * MIB))
        self.refused(ELSE, "larger than all objects", "put", "huge", data=bytes(65 * MIB))
        self.do("keep", "kept", "--off")
        self.do("put", "more", data=bytes(32 * MIB))
        self.assertEqual([row["id"] for row in self.rows("ls")], ["more"])

    def test_objects_survive_the_server(self):
        self.do("put", "survivor", "--metadata", "m", data=b"x" * MIB)
        digest = self.do("digest", "survivor")
        self.node.kill_server()
        self.assertEqual(self.do("get", "survivor", "--metadata"), b"m")
        self.assertEqual(self.do("digest", "survivor"), digest)
        self.do("put", "after", data=b"2")
        self.assertEqual(sorted(row["id"] for row in self.rows("ls")), ["after", "survivor"])


class OneShard(Objects, unittest.TestCase):
    def test_is_read_while_the_server_is_stopped(self):
        self.do("put", "frozen", data=b"ice" * 1000)
        with self.node.stopped_server():
            self.assertEqual(self.do("get", "frozen"), b"ice" * 1000)
            self.assertEqual([row["id"] for row in self.rows("ls")], ["frozen"])
            self.refused(ELSE, "may or may not have happened", "put", "late", "--timeout", "200ms", data=b"1")


class TwoShards(Objects, unittest.TestCase):
    flags = ("--server-shards", "2")


class OverTcp(Objects, unittest.TestCase):
    is_tcp = True


class WithALogAndEviction(Objects, unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="refract-objects-")
        self.addCleanup(made.cleanup)
        self.flags = ("--data-durability", "everysec", "--data-folder", os.path.join(made.name, "data"),
                      "--memory-eviction", "lru", "--server-shards", "2")
        super().setUp()

    def test_keys_outlive_the_node_and_objects_do_not(self):
        self.node.run("put", "key", "value")
        self.do("put", "object", data=b"bytes")
        self.node.__exit__()
        with Node("--objects-limit", "64MiB", *self.flags) as again:
            self.assertEqual(again.run("get", "key").stdout, b"value")
            self.assertEqual(again.run("object", "get", "object").returncode, NO)
            self.assertEqual(again.run("object", "put", "object", data=b"new").returncode, DONE)
            self.assertEqual(again.run("object", "get", "object").stdout, b"new")


class Without(unittest.TestCase):
    def test_a_node_without_objects_says_how_to_have_some(self):
        with Node() as node:
            done = node.run("object", "ls")
            self.assertEqual(done.returncode, ELSE)
            self.assertIn("--objects-limit", sentence(done))

    def test_wrong_words_are_named(self):
        for words, says in ((("object",), "what is to be done"), (("object", "pot", "x"), "pot"),
                            (("object", "put"), "id is missing"), (("object", "evict", "many"), "many"),
                            (("object", "get", "x", "--wait", "soon"), "soon")):
            done = run_client(*words)
            self.assertEqual(done.returncode, WRONG, done.stderr.decode())
            self.assertIn(says, sentence(done) + done.stdout.decode())

    def test_every_command_has_a_page(self):
        overview = run_client("object", "--help").stdout.decode()
        for action in ("put", "get", "ls", "rm", "stat", "keep", "evict", "wait", "subscribe", "digest"):
            self.assertIn(f"\n  {action}", overview)
            page = run_client("object", action, "--help")
            self.assertEqual(page.returncode, DONE)
            self.assertIn(f"Usage: refract object {action}", page.stdout.decode())


if __name__ == "__main__":
    Programs.refractd, Programs.refract = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
