#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line client against real nodes: what it prints, what it exits with, and what it says.

Usage: cli_test.py REFRACTD REFRACT [unittest arguments]
"""

import base64
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import PATIENCE_S, Node, Programs, clean_environment, run_client  # noqa: E402

ODD = bytes(range(256)) + b"\n\r\n\0\0end without a line break"
STATUS = "/var/lib/dpkg/status"
COMMANDS = ["get", "put", "erase", "cas", "scan", "load", "dump", "stat", "ping", "top", "trace",
            "check", "restore", "inspect", "chain", "doctor", "clear"]
SMALL = ("--memory-initial", "32MiB", "--memory-limit", "64MiB")


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


class WithNode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node("--memory-initial", "64MiB", "--memory-limit", "256MiB")
        cls.addClassCleanup(cls.node.__exit__)
        cls.folder = tempfile.mkdtemp(dir=cls.node.folder)

    def ok(self, *words, data=b"", node=None):
        done = (node or self.node).run(*words, data=data)
        self.assertEqual(done.returncode, 0, (words, done.stderr.decode(errors="replace")))
        return done.stdout

    def refused(self, code, *words, data=b"", node=None):
        """The exit code is `code`, and the error has two lines: what is wrong, and what to do."""
        done = (node or self.node).run(*words, data=data)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, (words, done.stdout, said))
        self.assertRegex(said, r"(?m)^refract: .+\n  \S.+", words)
        return said


class Entries(WithNode):
    def test_any_bytes_come_back_exactly(self):
        for value in [b"", b"x", b"line\n", ODD, os.urandom(3_000_000)]:
            self.ok("put", "-f", write(self.folder, "value", value), "odd")
            self.assertEqual(self.ok("get", "odd"), value)
        for value in [b"", ODD]:
            self.ok("put", "odd", "-", data=value)
            self.assertEqual(self.ok("get", "odd"), value)
        out = os.path.join(self.folder, "out")
        self.assertEqual(self.ok("get", "odd", "--output", out), b"")
        with open(out, "rb") as file:
            self.assertEqual(file.read(), ODD)

    def test_any_bytes_can_be_a_key(self):
        for key in [ODD, b"\0", b"k" * 65535]:
            self.ok("put", "-", "value", data=key)
            self.assertEqual(self.ok("get", "-", data=key), b"value")
            self.ok("erase", "-", data=key)
            self.refused(1, "get", "-", data=key)
        for key in ["get", "put", "{}", "[a]", "a b", "%%"]:
            self.ok("put", key, key)
            self.assertEqual(self.ok("get", key), key.encode())
        self.ok("put", "--", "--json", "-v")
        self.assertEqual(self.ok("get", "--", "--json"), b"-v")

    def test_keys_of_an_impossible_length_are_refused(self):
        self.assertIn("65535", self.refused(2, "put", "-", "v", data=b"k" * 65536))
        self.refused(2, "get", "")

    def test_conditions_decide_and_exit_with_1(self):
        self.assertEqual(self.ok("put", "--if-absent", "conditional", "first"), b"")
        self.assertIn("exists", self.refused(1, "put", "--if-absent", "conditional", "second"))
        version = json.loads(self.ok("put", "--json", "conditional", "third"))["version"]
        said = self.ok("put", "-v", "--if-version", str(version), "conditional", "fourth")
        self.assertRegex(said, rb"^version \d+\n$")
        self.refused(1, "put", "--if-version", str(version), "conditional", "fifth")
        self.refused(1, "erase", "--if-version", str(version), "conditional")
        self.assertEqual(self.ok("get", "conditional"), b"fourth")
        self.ok("erase", "conditional")
        self.refused(1, "erase", "conditional")

    def test_clear_takes_all_keys_if_that_is_said(self):
        with Node(*SMALL, "--server-shards", "2") as node:
            for key in ("a", "b", "c"):
                self.ok("put", key, "v", node=node)
            self.assertIn("--all", self.refused(2, "clear", node=node))
            self.assertEqual(self.ok("get", "a", node=node), b"v")
            self.assertEqual(self.ok("clear", "--all", node=node), b"3 keys removed\n")
            self.assertEqual(self.ok("scan", node=node), b"")
            self.assertEqual(json.loads(self.ok("clear", "--all", "--json", node=node))["erased"], 0)

    def test_cas_changes_only_what_is_as_expected(self):
        self.refused(1, "cas", "state", "idle", "busy")
        self.ok("put", "state", "idle")
        self.ok("cas", "state", "idle", "busy")
        self.assertIn("'busy'", self.refused(1, "cas", "state", "idle", "other"))
        self.assertEqual(self.ok("get", "state"), b"busy")

    def test_cas_of_many_at_once_lets_each_step_happen_once(self):
        self.ok("put", "counter", "0")

        def count():
            for _ in range(10):
                while True:
                    now = self.node.run("get", "counter").stdout.decode()
                    if self.node.run("cas", "counter", now, str(int(now) + 1)).returncode == 0:
                        break

        threads = [threading.Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.ok("get", "counter"), b"30")

    def test_an_entry_with_a_time_to_live_goes(self):
        self.ok("put", "--ttl", "24h", "long", "v")
        self.assertIn(b"expires in", self.node.run("get", "-v", "long").stderr)
        self.ok("put", "--ttl", "1ms", "short", "v")
        while self.node.run("get", "short").returncode == 0:
            pass
        self.refused(1, "get", "short")

    def test_a_wrong_command_line_exits_with_2(self):
        for words in [("get",), ("get", "a", "b"), ("put", "k"), ("put", "k", "v", "--ttl", "soon"),
                      ("gett", "k"), ("get", "--nonsense", "k"), ("scan", "--limit", "many"), ("load",),
                      ("put", "k", "-f"), ()]:
            self.refused(2, *words)


class Verified(WithNode):
    def test_what_was_put_comes_back_and_what_was_changed_does_not(self):
        for value in [b"", b"value", ODD, os.urandom(1_000_000)]:
            self.ok("put", "--verify", "-f", write(self.folder, "value", value), "sealed")
            self.assertEqual(self.ok("get", "--verify", "sealed"), value)
            stored = self.ok("get", "sealed")
            self.assertEqual(stored[:-16], value)
            changed = bytes([stored[0] ^ 1]) + stored[1:]
            self.ok("put", "-f", write(self.folder, "changed", changed), "sealed")
            said = self.refused(4, "get", "--verify", "sealed")
            self.assertIn("is damaged" if value else "carries no checksum", said)
        self.ok("put", "plain", "a value without a checksum")
        self.assertIn("carries no checksum", self.refused(4, "get", "--verify", "plain"))
        self.refused(1, "get", "--verify", "absent")

    def test_cas_compares_and_stores_what_verifies(self):
        self.ok("put", "--verify", "state", "idle")
        self.refused(1, "cas", "--verify", "state", "busy", "done")
        self.ok("cas", "--verify", "state", "idle", "busy")
        self.assertEqual(self.ok("get", "--verify", "state"), b"busy")

    def test_a_load_and_a_dump_leave_out_what_does_not_verify(self):
        with Node(*SMALL) as node:
            lines = "".join(f'{{"key": "k{i}", "value": "v{i}"}}\n' for i in range(100))
            self.ok("load", "--verify", "-", "--format", "jsonl", data=lines.encode(), node=node)
            self.assertEqual(self.ok("get", "--verify", "k7", node=node), b"v7")
            dumped = self.ok("dump", "--verify", node=node)
            self.assertEqual({json.loads(line)["value"] for line in dumped.splitlines()},
                             {f"v{i}" for i in range(100)})
            self.ok("put", "k7", "without a checksum", node=node)
            done = node.run("dump", "--verify")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stdout.splitlines()), 99)
            self.assertIn(b"k7", done.stderr)
            self.assertIn(b"1 did not verify", done.stderr)


class Scans(WithNode):
    def test_scan_lists_every_key_once_in_each_form(self):
        odd_key = b"odd \xff \n \0"
        keys = {b"user:%d" % i for i in range(3000)} | {odd_key}
        lines = b"".join(b'{"key":"user:%d","value":"v"}\n' % i for i in range(3000))
        self.ok("load", "--format", "jsonl", "-", data=lines)
        self.ok("put", "-", "v", data=odd_key)
        self.assertEqual(set(self.ok("scan", "--prefix", "user:").split()), keys - {odd_key})
        objects = [json.loads(line) for line in self.ok("scan", "--json").splitlines()]
        listed = {base64.b64decode(entry["key_base64"]) if "key_base64" in entry else entry["key"].encode()
                  for entry in objects}
        self.assertEqual(listed, keys)
        self.assertEqual(len(objects), len(keys))
        self.assertTrue(all(entry["version"] > 0 and entry["value_bytes"] == 1 for entry in objects))
        self.assertEqual(len(self.ok("scan", "--prefix", "user:", "--limit", "7").splitlines()), 7)
        self.assertEqual(len(self.ok("scan", "-0", "--prefix", "user:").split(b"\0")), 3001)
        self.assertRegex(self.ok("scan", "-l", "--prefix", "user:17", "--limit", "1"), rb"^ *\d+ +1 user:17")


# Escape sequences of 7 and of 8 bits, the latter as UTF-8 too; what returns to the beginning of a line; what
# turns the direction of writing.
HOSTILE = b"a\x1b[2Jb\xc2\x9b31mc\x9b31md\r\xe2\x80\xaee"
SPELLED = b"a\\x1b[2Jb\\xc2\\x9b31mc\\x9b31md\\x0d\\xe2\\x80\\xaee"


class Terminals(WithNode):
    def on_terminal(self, *words):
        """What a terminal gets, errors too."""
        ours, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        process = subprocess.Popen([Programs.refract, "--socket", self.node.socket, *words], stdin=theirs,
                                   stdout=theirs, stderr=theirs, env=clean_environment())
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # The other end is closed.
                break
            if not piece:
                break
            said += piece
        os.close(ours)
        process.wait(PATIENCE_S)
        return said

    def test_no_byte_of_keys_values_and_errors_reaches_a_terminal_that_it_would_obey(self):
        value = write(self.folder, "value", HOSTILE + b"\n\tsecond line")
        self.ok("put", "-", "-f", value, data=HOSTILE)
        self.ok("put", "hostile value", "-", data=HOSTILE + b"\n\tsecond line")
        self.assertEqual(self.on_terminal("get", "hostile value"), SPELLED + b"\n\tsecond line\n")
        self.assertIn(SPELLED + b"\n", self.on_terminal("scan"))
        for words in [("scan",), ("scan", "-l"), ("scan", "-0"), ("scan", "--json"),
                      *(("dump", "--format", form) for form in ("csv", "tsv", "jsonl", "debian")),
                      ("get", "-v", "hostile value"), ("get", HOSTILE), ("stat",),
                      ("erase", b"no " + HOSTILE), ("cas", HOSTILE, "x", "y"),
                      ("inspect", "--key", HOSTILE), ("trace", "get", HOSTILE), ("chain", b"/" + HOSTILE),
                      (b"no" + HOSTILE,), ("get", "k", b"--" + HOSTILE)]:
            said = self.on_terminal(*words)
            rest = said.replace(b"\r\x1b[K", b"")  # Progress clears its own line.
            for obeyed in [b"\x1b", b"\xc2\x9b", b"\xe2\x80\xae"]:
                self.assertNotIn(obeyed, rest, words)
            self.assertTrue(b"31m" in said or b"base64" in said or "stat" in words, (words, said))

    def test_raw_bytes_go_to_a_terminal_when_they_are_asked_for(self):
        self.ok("put", "raw", "-", data=HOSTILE)
        self.assertEqual(self.on_terminal("get", "--raw", "raw"), HOSTILE)
        self.ok("put", "-", "v", data=b"key " + HOSTILE)
        self.assertIn(b"key " + HOSTILE + b"\n", self.on_terminal("scan", "--raw"))
        self.assertIn(HOSTILE, self.on_terminal("dump", "--raw", "--format", "csv", "--no-progress"))

    def test_pipes_get_the_bytes_as_they_are(self):
        self.ok("put", "-", "-f", write(self.folder, "value", HOSTILE), data=b"pipe " + HOSTILE)
        self.assertIn(b"pipe " + HOSTILE + b"\n", self.ok("scan"))
        self.assertEqual(self.ok("get", "-", data=b"pipe " + HOSTILE), HOSTILE)


class Questions(WithNode):
    def test_a_question_beyond_the_end_is_no_damage(self):
        for words in [("--at", "0x7fffffffffff"), ("--bucket", "99999999")]:
            done = self.node.run("inspect", *words)
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stdout.decode(), "nothing lies at|there is no bucket")
            self.assertNotIn(b"DAMAGE", done.stdout + done.stderr)
            self.assertNotIn(b"damage", done.stdout + done.stderr)

    def test_a_folder_that_is_no_nodes_is_said_to_be_of_no_kind(self):
        empty = os.path.join(self.folder, "not a node's")
        os.mkdir(empty)
        said = self.refused(4, "check", empty)
        self.assertIn("no data of a node", said)
        self.assertIn("--data-folder", said)


class Loads(WithNode):
    def load(self, name, data, *options, code=0):
        done = self.node.run("load", *options, write(self.folder, name, data))
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return done.stderr.decode()

    def test_bad_records_are_named_with_their_line_and_the_others_loaded(self):
        said = self.load("a.csv", b'key,value\nc1,one\n,empty\n"c2","t,w\no"\nx,y,z\nc3,three\n', code=1)
        self.assertIn("a.csv:3:", said)
        self.assertIn("a.csv:6:", said)
        self.assertRegex(said, r"\n3 loaded, 2 bad, ")
        self.assertEqual(self.ok("get", "c2"), b"t,w\no")
        self.assertEqual(self.ok("get", "c3"), b"three")
        said = self.load("b.tsv", b"t1\tone\nonly\nt2\ttwo\n", code=1)
        self.assertIn("b.tsv:2:", said)
        self.assertEqual(self.ok("get", "t2"), b"two")
        lines = b'{"key":"j1","value":{"a":1}}\nnonsense\n{"key":"j2","value_base64":"/wA="}\n'
        said = self.load("c.jsonl", lines, code=1)
        self.assertIn("c.jsonl:2:", said)
        self.assertEqual(self.ok("get", "j1"), b'{"a":1}')
        self.assertEqual(self.ok("get", "j2"), b"\xff\0")

    def test_a_folder_is_loaded_and_its_special_files_reported(self):
        folder = os.path.join(self.folder, "tree")
        os.makedirs(os.path.join(folder, "sub"))
        write(folder, "plain", ODD)
        write(folder, "sub/deep", b"below")
        os.symlink("plain", os.path.join(folder, "link"))
        done = self.node.run("load", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"link", done.stderr)
        self.assertEqual(self.ok("get", "plain"), ODD)
        self.assertEqual(self.ok("get", "sub/deep"), b"below")

    def test_keys_come_from_the_column_or_field_that_was_named(self):
        self.load("k.csv", b"name,id\nAnn,1\nBob,2\n", "--key-column", "id", "--prefix", "user:")
        self.assertEqual(self.ok("get", "user:2"), b"Bob")
        self.load("k.jsonl", b'{"id": 7, "name": "Cid"}\n', "--key-field", "id")
        self.assertEqual(json.loads(self.ok("get", "7")), {"id": 7, "name": "Cid"})

    def test_of_two_records_with_one_key_the_last_stays(self):
        lines = b"".join(b"same,%d\nother%d,x\n" % (i, i) for i in range(2000))
        self.load("same.csv", lines, "--header", "no")
        self.assertEqual(self.ok("get", "same"), b"1999")

    def test_a_missing_file_is_said_and_the_next_one_loaded(self):
        good = write(self.folder, "good.csv", b"g,1\n")
        done = self.node.run("load", os.path.join(self.folder, "absent"), good)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"absent", done.stderr)
        self.assertEqual(self.ok("get", "g"), b"1")
        self.assertEqual(self.node.run("load", os.path.join(self.folder, "absent")).returncode, 4)

    @unittest.skipUnless(os.path.exists(STATUS), "this system has no dpkg")
    def test_the_machines_packages_are_loaded(self):
        with open(STATUS, encoding="utf-8", errors="replace") as file:
            wanted = len(re.findall(r"(?m)^Package:", file.read()))
        done = self.node.run("load", STATUS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{wanted:,} loaded, 0 bad".encode(), done.stderr)
        self.assertTrue(self.ok("get", "dpkg").startswith(b"Package: dpkg\n"))

    def test_no_progress_leaves_the_summary_alone(self):
        said = self.load("quiet.csv", b"q,1\n", "--no-progress")
        self.assertRegex(said, r"^1 loaded, 0 bad, [^\n]+\n$")

    def test_a_load_goes_on_when_the_server_is_killed(self):
        count = 60_000
        path = write(self.folder, "survivors.jsonl",
                     b"".join(b'{"key":"survivor%d","value":"%d"}\n' % (i, i) for i in range(count)))
        before = json.loads(self.ok("stat", "--json"))["entries"]
        result = []
        thread = threading.Thread(target=lambda: result.append(self.node.run("load", path)))
        thread.start()
        while thread.is_alive() and json.loads(self.ok("stat", "--json"))["entries"] <= before:
            pass
        self.node.kill_server()
        thread.join()
        self.assertEqual(result[0].returncode, 0, result[0].stderr)
        self.assertIn(b"60,000 loaded, 0 bad", result[0].stderr)
        self.assertEqual(len(self.ok("scan", "--prefix", "survivor").splitlines()), count)


class Dumps(WithNode):
    def contents(self, node):
        return sorted(node.run("dump", "--no-progress").stdout.splitlines())

    def test_a_dump_loads_into_a_second_node_as_it_was(self):
        with Node(*SMALL) as first:
            self.ok("put", "-", "-f", write(self.folder, "odd", ODD), data=ODD[::-1], node=first)
            self.ok("put", "empty", "", node=first)
            self.ok("put", "large", "-", data=os.urandom(2_000_000), node=first)
            self.ok("load", "--format", "csv", "--header", "no", "-", node=first,
                    data=b"".join(b"n%d,%d\n" % (i, i * i) for i in range(5000)))
            wanted = self.contents(first)
            self.assertEqual(len(wanted), 5003)
            for form in ["jsonl", "csv", "tsv", "dir"]:
                path = os.path.join(self.folder, "dump." + form)
                self.ok("dump", "--format", form, "--output", path, node=first)
                with Node(*SMALL) as second:
                    self.ok("load", path, node=second)
                    self.assertEqual(self.contents(second), wanted, form)

    def test_a_dump_replaces_no_file_unless_told(self):
        path = write(self.folder, "precious", b"keep me")
        self.assertNotEqual(self.node.run("dump", "-o", path).returncode, 0)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"keep me")
        self.ok("dump", "-o", path, "--overwrite")

    def test_what_has_no_form_in_a_format_is_reported(self):
        self.ok("put", "no stanza", "x")
        done = self.node.run("dump", "--format", "debian")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"'no stanza'", done.stderr)


class StateOfTheNode(WithNode):
    def test_json_of_every_command_parses(self):
        self.ok("put", "k", "v")
        stat = json.loads(self.ok("stat", "--json"))
        self.assertEqual(stat["entries"], 1)
        self.assertGreaterEqual(stat["calls"]["put"], 1)
        ping = json.loads(self.ok("ping", "--json"))
        self.assertTrue(ping["answers"] and ping["direct"])
        self.assertEqual(json.loads(self.ok("check", "--json"))["entries"], 1)
        doctor = self.node.run("doctor", "--no-self-test", "--json",
                               environment={"REFRACT_MEMORY_LIMIT": "64MiB"})
        self.assertIn(doctor.returncode, (0, 1))
        self.assertEqual(json.loads(doctor.stdout)["healthy"], doctor.returncode == 0)
        self.assertEqual(json.loads(self.ok("erase", "--json", "k"))["key"], "k")

    def test_tables_name_what_they_count(self):
        text = self.ok("stat").decode()
        for word in ["entries", "memory", "buckets", "up ", "incarnation", "connections", "calls"]:
            self.assertIn(word, text)
        self.assertIn("direct", self.ok("ping", "--why").decode())
        self.assertRegex(self.ok("check").decode(), r"(?s)checked the node at .*no damage")

    def test_the_socket_comes_from_flag_or_environment(self):
        done = run_client("ping", environment={"REFRACT_SOCKET_PATH": self.node.socket})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(run_client("ping", "--socket", self.node.socket,
                                    environment={"REFRACT_SOCKET_PATH": "/nowhere"}).returncode, 0)


class Troubles(WithNode):
    def test_reads_go_on_while_the_server_is_stopped(self):
        self.ok("put", "stays", "readable")
        with self.node.stopped_server():
            self.assertEqual(self.ok("get", "stays"), b"readable")
            self.assertIn(b"stays", self.ok("scan"))
            self.assertIn(b"readable", self.ok("dump"))
            self.assertIn(b"no damage", self.ok("check"))
            self.assertIn("still work", self.refused(3, "ping", "--timeout", "200ms"))
            self.refused(4, "put", "--timeout", "200ms", "stays", "unknown")
        self.ok("put", "stays", "writable")

    def test_a_killed_server_loses_nothing(self):
        for i in range(3):
            self.ok("put", "survives", str(i))
            self.node.kill_server()
            self.assertEqual(self.ok("get", "survives"), str(i).encode())
            self.ok("put", f"after {i}", "served")
        self.assertIn(b"no damage", self.ok("check"))

    def test_no_node_exits_with_3_and_says_what_to_start(self):
        for words in [("get", "k"), ("put", "k", "v"), ("erase", "k"), ("scan",), ("dump",), ("stat",),
                      ("ping",), ("check",), ("load", __file__)]:
            done = run_client(*words, socket=os.path.join(self.folder, "absent.sock"))
            self.assertEqual(done.returncode, 3, (words, done.stderr))
            self.assertIn(b"absent.sock", done.stderr)
            self.assertRegex(done.stderr.decode(), r"start .*refractd", words)

    def test_a_full_node_says_so_and_keeps_what_it_has(self):
        with Node(*SMALL) as node:
            lines = [b'{"key":"fill%d","value":"%s"}\n' % (i, b"x" * 100_000) for i in range(1000)]
            path = write(self.folder, "fill.jsonl", b"".join(lines))
            said = self.refused(4, "load", path, node=node)
            self.assertIn("memory limit", said)
            self.assertIn("--memory-limit", said)
            self.assertRegex(said, r"fill.jsonl:\d+")
            loaded = int(re.search(r"([\d,]+) loaded", said).group(1).replace(",", ""))
            self.assertEqual(len(self.ok("scan", node=node).splitlines()), loaded)
            said = self.refused(4, "put", "more", "-", data=b"y" * 5_000_000, node=node)
            self.assertIn("memory limit", said)
            self.assertIn(b"no damage", self.ok("check", node=node))

    def test_a_node_that_gave_up_can_still_be_read_and_checked(self):
        with Node("--restart-limit", "1", *SMALL) as node:
            self.ok("put", "k", "v", node=node)
            while json.loads(node.run("ping", "--json", "--timeout", "300ms").stdout)["server"] != "given up":
                try:
                    os.kill(node.server_now(), 9)
                except (ProcessLookupError, IndexError):
                    pass
            self.assertEqual(self.ok("get", "k", node=node), b"v")
            self.assertIn(b"no damage", self.ok("check", node=node))
            self.assertIn(b'"k"', self.ok("dump", node=node))
            self.refused(3, "put", "--timeout", "300ms", "k", "w", node=node)


class Damages(WithNode):
    def test_a_flipped_byte_in_a_region_file_is_found_and_named(self):
        store = os.path.join(self.folder, "store")
        os.mkdir(store)
        with Node("--memory-backing", "file:" + store, *SMALL) as node:
            self.ok("load", "--format", "csv", "--header", "no", "-", node=node,
                    data=b"".join(b"key%d,a value to be found %d\n" % (i, i) for i in range(2000)))
        self.assertIn(b"2,000 (0 of them expire)", self.ok("check", "--path", store))
        region = os.path.join(store, "region-000")
        with open(region, "r+b") as file:
            at = file.read().index(b"key777a value")
            file.seek(at)
            file.write(b"kex")
        done = self.node.run("check", "--path", store)
        self.assertEqual(done.returncode, 1)
        named = [int(offset, 16) for offset in re.findall(rb"damage at offset (0x[0-9a-f]+)", done.stdout)]
        self.assertEqual(named, [at - 16], done.stdout)
        told = json.loads(self.node.run("check", "--json", "--path", store).stdout)
        self.assertEqual(told["damages"][0]["offset"], named[0])
        with open(region, "r+b") as file:
            file.write(b"nothing that a node wrote")
        self.assertIn("damage", self.refused(1, "check", "--path", store))
        self.refused(4, "check", "--path", os.path.join(self.folder, "nothing here"))


class Help(unittest.TestCase):
    def test_every_command_explains_itself(self):
        overview = run_client("--help").stdout.decode()
        for command in COMMANDS:
            self.assertRegex(overview, rf"(?m)^  {command} ")
            page = run_client(command, "--help")
            self.assertEqual(page.returncode, 0)
            for part in [f"Usage: refract {command}", "Options", "Examples", "Exit codes", "--socket"]:
                self.assertIn(part, page.stdout.decode(), command)
            self.assertEqual(run_client("help", command).stdout, page.stdout)

    def test_version_and_help_refuse_what_they_do_not_understand(self):
        for words in [("--version", "extra"), ("--version", "get", "k"), ("get", "k", "--version"),
                      ("--help", "nonsense"), ("help", "nonsense")]:
            done = run_client(*words)
            self.assertEqual((done.returncode, done.stdout), (2, b""), words)
            self.assertRegex(done.stderr.decode(), r"(?m)^refract: .+\n  \S.+")

    def test_the_version_is_printed(self):
        self.assertRegex(run_client("--version").stdout.decode(),
                         r"^refract \d+\.\d+\.\d+\n  memory  layout \d")


if __name__ == "__main__":
    Programs.refractd, Programs.refract = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
