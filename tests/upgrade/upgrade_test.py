#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/upgrade.md promises, between two builds: these programs, and the same ones with other version
numbers, of files and memory in one case and of the wires in the other.

Usage: upgrade_test.py FOLDER_OF_THE_PROGRAMS [unittest arguments]
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from node import PATIENCE_S, Node, Programs, clean_environment, run_client  # noqa: E402

SMALL = ("--memory-initial", "32MiB", "--memory-limit", "64MiB")
BIN = ""


class Build:
    """One of the three builds."""

    def __init__(self, suffix):
        self.refractd = os.path.join(BIN, "refractd" + suffix)
        self.refract = os.path.join(BIN, "refract" + suffix)

    def node(self, test, *flags):
        Programs.refractd = self.refractd
        node = Node(*SMALL, *flags)
        test.addCleanup(node.__exit__)
        return node

    def refused(self, *flags):
        """Starts a node that does not come up; its exit code and what it says."""
        with tempfile.TemporaryDirectory() as folder:
            command = [self.refractd, "--socket-path", folder + "/n.sock", *SMALL, *flags]
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False,
                                  env=clean_environment())
        return done.returncode, done.stderr.decode()

    def run(self, where, *words, data=b""):
        Programs.refract = self.refract
        return run_client(*words, socket=where, data=data)

    def run_tcp(self, node, *words, data=b""):
        Programs.refract = self.refract
        return run_client("--address", f"tcp:{node.tcp_address}", *words, data=data)

    def versions(self):
        text = subprocess.run([self.refractd, "--version"], capture_output=True, timeout=PATIENCE_S,
                              check=True).stdout.decode()
        # "tcp 1 to 2" is what a build speaks at most.
        return {name: int(newest or oldest) for name, oldest, newest in
                re.findall(r"(\w+) (\d+)(?: to (\d+))?(?=[,\n )])", text)}


def kill_everything(node):
    server = node.server()
    node.process.kill()
    node.process.wait()
    try:
        os.kill(server, signal.SIGKILL)
    except ProcessLookupError:
        pass


def contents(folder):
    """What lies there, but for the lock, which has nothing in it."""
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


class Upgrade(unittest.TestCase):
    def setUp(self):
        self.now, self.files, self.wire = Build(""), Build("_next_files"), Build("_next_wire")
        made = tempfile.TemporaryDirectory(prefix="refract-upgrade-")
        self.addCleanup(made.cleanup)
        self.made = made.name
        self.folder = os.path.join(made.name, "data")
        self.log = ("--data-durability", "everysec", "--data-folder", self.folder)

    def fill(self, node, build=None):
        lines = b"".join(b'{"key":"key-%d","value":"value-%d"}\n' % (i, i) for i in range(300))
        done = (build or self.now).run(node.socket, "load", "--format", "jsonl", "-", data=lines)
        self.assertEqual(done.returncode, 0, done)

    def expect_all(self, node, build):
        self.assertEqual(len(build.run(node.socket, "scan").stdout.splitlines()), 300)
        self.assertEqual(build.run(node.socket, "get", "key-299").stdout, b"value-299")


class Builds(Upgrade):
    def test_the_next_ones_differ_where_they_say_and_nowhere_else(self):
        now = self.now.versions()
        files, wires = {"layout", "store", "log", "ring", "snapshot", "page"}, {"shm", "tcp", "verbs"}
        self.assertEqual(set(now), files | wires | {"chains"}, "what is not here is not tested here")
        for build, raised in ((self.files, files), (self.wire, wires)):
            self.assertEqual(build.versions(), {name: number + (1 if name in raised else 0)
                                                for name, number in now.items()})


class Files(Upgrade):
    """The next release has other files."""

    def test_a_folder_of_another_version_is_refused_unchanged_and_dump_and_load_take_it_over(self):
        node = self.now.node(self, *self.log)
        self.fill(node)
        self.assertEqual(self.now.run(node.socket, "snapshot").returncode, 0)
        dump = os.path.join(self.made, "all.jsonl")
        self.assertEqual(self.now.run(node.socket, "dump", "-o", dump).returncode, 0)
        node.__exit__()
        before = contents(self.folder)
        code, said = self.files.refused(*self.log)
        self.assertEqual(code, 1, said)
        for word in (self.folder + "/store", "version 3", "reads 4", "refract dump", "refract load"):
            self.assertIn(word, said)
        self.assertEqual(contents(self.folder), before)
        again = self.now.node(self, *self.log)
        self.expect_all(again, self.now)
        again.__exit__()
        new = self.files.node(self, "--data-durability", "everysec", "--data-folder", self.made + "/new")
        self.assertEqual(self.files.run(new.socket, "load", dump).returncode, 0)
        self.expect_all(new, self.files)

    def test_after_a_crash_of_everything_too_nothing_is_touched(self):
        node = self.now.node(self, *self.log)
        self.fill(node)
        kill_everything(node)
        code, said = self.files.refused(*self.log)
        self.assertEqual(code, 1, said)
        self.expect_all(self.now.node(self, *self.log), self.now)

    def test_an_older_program_refuses_the_newer_ones_folder_in_the_same_way(self):
        node = self.files.node(self, *self.log)
        self.fill(node, self.files)
        node.__exit__()
        code, said = self.now.refused(*self.log)
        self.assertEqual(code, 1, said)
        self.assertIn("has version 4, this program reads 3", said)
        self.expect_all(self.files.node(self, *self.log), self.files)

    def test_memory_in_files_of_another_version_is_refused_and_dump_and_load_take_it_over(self):
        os.mkdir(self.folder)
        backing = ("--memory-backing", "file:" + self.folder)
        node = self.now.node(self, *backing)
        self.fill(node)
        node.__exit__()
        before = contents(self.folder)
        code, said = self.files.refused(*backing)
        self.assertEqual(code, 1, said)
        for word in ("layout version 4", "reads 5", "refract dump", "refract load"):
            self.assertIn(word, said)
        self.assertEqual(contents(self.folder), before)
        self.expect_all(self.now.node(self, *backing), self.now)

    def test_a_client_that_does_not_know_the_layout_is_told_and_reaches_the_node_over_tcp(self):
        node = self.files.node(self, "--listen-address", "127.0.0.1:0")
        self.fill(node, self.files)
        done = self.now.run(node.socket, "get", "key-1")
        self.assertEqual(done.returncode, 4, done)
        self.assertRegex(done.stderr.decode(), r"layout version 6, this client reads 5")
        self.assertEqual(self.now.run_tcp(node, "get", "key-1").stdout, b"value-1")


class Wires(Upgrade):
    """The next release speaks one more version, and the one before."""

    def use(self, node, client):
        for run in (lambda *words: client.run(node.socket, *words),
                    lambda *words: client.run_tcp(node, *words)):
            self.assertEqual(run("put", "key-0", "changed").returncode, 0)
            self.assertEqual(run("get", "key-0").stdout, b"changed")
            self.assertEqual(run("put", "key-0", "value-0").returncode, 0)
            self.assertEqual(len(run("scan").stdout.splitlines()), 300)

    def test_old_clients_go_on_with_a_new_node_that_has_taken_the_folder_over_and_back(self):
        listening = ("--listen-address", "127.0.0.1:0")
        node = self.now.node(self, *self.log, *listening)
        self.fill(node)
        self.use(node, self.now)
        self.use(node, self.wire)
        node.__exit__()
        node = self.wire.node(self, *self.log, *listening)
        self.expect_all(node, self.now)
        self.use(node, self.now)
        self.use(node, self.wire)
        kill_everything(node)
        self.expect_all(self.now.node(self, *self.log), self.now)

    def test_memory_in_files_goes_on_warm_in_the_new_node(self):
        os.mkdir(self.folder)
        backing = ("--memory-backing", "file:" + self.folder)
        node = self.now.node(self, *backing)
        self.fill(node)
        node.__exit__()
        node = self.wire.node(self, *backing)
        self.assertIn("is there again", node.banner + node.process.stdout.readline().decode())
        self.expect_all(node, self.now)


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
