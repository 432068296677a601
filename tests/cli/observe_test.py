#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looking at real nodes: top, trace, stat and ping, on terminals and without.

Usage: observe_test.py REFRACTD REFRACT [unittest arguments]
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import PATIENCE_S, Node, Programs, clean_environment  # noqa: E402

SMALL = ("--memory-initial", "32MiB", "--memory-limit", "64MiB")


def eventually(look, what):
    """The first true value of look(); nothing is measured, this only ends a test that would hang."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
    raise AssertionError(f"never happened: {what}")


@contextlib.contextmanager
def busy(node):
    """Puts continue until the block ends."""
    stop = threading.Event()

    def put():
        lines = b"".join(b'{"key":"busy%d","value":"v"}\n' % i for i in range(500))
        while not stop.is_set():
            node.run("load", "--format", "jsonl", "--no-progress", "-", data=lines)

    thread = threading.Thread(target=put)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Screen:
    """A command on a terminal of its own."""

    def __init__(self, node, *words, columns=120, rows=40):
        self.shown = ""
        self._master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.resize(columns, rows)
        self.process = subprocess.Popen([Programs.refract, *words, "--socket", node.socket], stdin=slave,
                                        stdout=slave, stderr=slave, env=clean_environment(),
                                        start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self.slave)

    def resize(self, columns, rows):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self._master, keys)

    def read(self):
        """What was drawn by now; waits a little for more."""
        while select.select([self._master], [], [], 0.05)[0]:
            try:
                self.shown += os.read(self._master, 65536).decode(errors="replace")
            except OSError:
                break
        return self.shown

    def wait_for(self, pattern):
        return eventually(lambda: re.search(pattern, self.read()), pattern)

    def screens(self):
        return self.shown.split("\x1b[H")[1:]


class WithNode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node("--server-shards", "2", "--memory-initial", "64MiB", "--memory-limit", "256MiB")
        cls.addClassCleanup(cls.node.__exit__)

    def ok(self, *words, node=None):
        done = (node or self.node).run(*words)
        self.assertEqual(done.returncode, 0, (words, done.stderr.decode(errors="replace")))
        return done.stdout.decode()

    def refused(self, code, *words, node=None):
        done = (node or self.node).run(*words)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, (words, done.stdout, said))
        self.assertRegex(said, r"(?m)^refract: .+\n  \S.+", words)
        return said


class Top(WithNode):
    def test_one_interval_as_json_tells_calls_memory_and_connections(self):
        def look():
            top = json.loads(self.ok("top", "--once", "--json", "--interval", "200ms"))
            return top if top["calls_per_s"] > 50 else None

        with busy(self.node):
            told = eventually(look, "an interval with puts in it")
        self.assertEqual(told["transport"], "shm")
        self.assertFalse(told["since_start"])
        put = next(method for method in told["methods"] if method["name"] == "put")
        self.assertGreater(put["calls_per_s"], 0)
        self.assertGreater(put["service_ns"]["p50"], 0)
        self.assertGreaterEqual(put["service_ns"]["p99.9"], put["service_ns"]["p50"])
        self.assertEqual([shard["shard"] for shard in told["shards"]], [0, 1])
        memory = told["memory"]
        self.assertLessEqual(memory["live"] + memory["table"] + memory["retired"] + memory["free"],
                             memory["total"])
        self.assertGreater(memory["largest_free_run"], 0)
        for one in told["connections"]:
            self.assertEqual(one["transport"], "shm")
            self.assertRegex(one["peer"], r"^process [1-9]\d*, user %d$" % os.getuid())
            self.assertTrue(one["reason"])

    def test_without_a_terminal_one_snapshot_is_printed(self):
        text = self.ok("top", "--interval", "50ms")
        for word in ["memory [", "per second", "p99.9", "shard", "connection", "process ", "largest run"]:
            self.assertIn(word, text)
        self.assertNotIn("\x1b", text)

    def test_on_a_terminal_it_is_drawn_anew_until_q(self):
        with Screen(self.node, "top", "--interval", "50ms") as screen:
            eventually(lambda: screen.read().count("refract top") >= 3, "three screens")
            screen.type(b"q")
            self.assertEqual(screen.process.wait(PATIENCE_S), 0)
            shown = screen.read()
            self.assertIn("\x1b[?1049h", shown)
            self.assertTrue(shown.rstrip().endswith("\x1b[?25h\x1b[?1049l"), "the screen is given back")
            self.assertEqual(termios.tcgetattr(screen.slave), screen.before, "keys are shown again")

    def test_it_fits_the_terminal_also_after_a_change_of_size(self):
        with Screen(self.node, "top", "--interval", "50ms", columns=60, rows=12) as screen:
            screen.wait_for("refract top")
            for columns, rows in [(60, 12), (35, 6), (150, 50)]:
                screen.resize(columns, rows)
                seen = len(screen.screens())
                eventually(lambda seen=seen: screen.read() and len(screen.screens()) > seen + 2,
                           "more screens")
                last = re.sub(r"\x1b\[[?0-9]*[a-zA-Z]|\r", "", screen.screens()[-2]).split("\n")
                self.assertLessEqual(len(last), rows)
                self.assertLessEqual(max(len(line) for line in last), columns)
            screen.type(b"\x03")
            self.assertEqual(screen.process.wait(PATIENCE_S), 0)

    def test_told_to_end_it_gives_the_terminal_back(self):
        with Screen(self.node, "top", "--interval", "10s") as screen:
            screen.wait_for("refract top")
            screen.process.terminate()
            self.assertEqual(screen.process.wait(PATIENCE_S), 0)
            self.assertIn("\x1b[?1049l", screen.read())
            self.assertEqual(termios.tcgetattr(screen.slave), screen.before)

    def test_it_goes_on_with_the_next_server(self):
        with Node(*SMALL) as node, Screen(node, "top", "--interval", "50ms", "--timeout", "1s") as screen:
            screen.wait_for("incarnation 1 ")
            node.kill_server()
            screen.wait_for("incarnation 2 ")
            screen.type(b"q")
            self.assertEqual(screen.process.wait(PATIENCE_S), 0)

    def test_json_goes_on_until_nobody_reads(self):
        process = subprocess.Popen([Programs.refract, "top", "--json", "--interval", "20ms", "--socket",
                                    self.node.socket], stdout=subprocess.PIPE, env=clean_environment())
        for _ in range(3):
            self.assertIn("calls_per_s", json.loads(process.stdout.readline()))
        process.stdout.close()
        process.wait(PATIENCE_S)

    def test_a_server_that_is_stopped_is_said_not_to_answer(self):
        with Node(*SMALL) as node:
            with node.stopped_server():
                for words in [("top", "--once"), ("trace",), ("trace", "put", "k", "v")]:
                    self.refused(3, *words, "--timeout", "200ms", node=node)
            self.ok("top", "--once", "--interval", "10ms", node=node)


class Trace(WithNode):
    def test_what_a_node_does_is_a_line_a_call(self):
        with busy(self.node):
            text = eventually(lambda: next((text for text in [self.ok("trace", "--for", "100ms")]
                                            if "  put_many " in text), None), "a recording with puts in it")
        self.assertRegex(text, r"(?m)^ *\d+\.\d{6} s  shard [01]  put_many +\d.* B  "
                               r"answered in +\S+ [nu]s  ok, ")
        self.assertRegex(text, r"\n[\d,]+ calls in [\d,]+ batches within ")
        self.assertRegex(text, r"(?m)^  put_many +[\d,]+ answered in .*\(p99\)")

    def test_a_trace_for_a_viewer_is_json_that_viewers_read(self):
        path = os.path.join(self.node.folder, "trace.json")
        with busy(self.node):
            def record():
                self.assertEqual(self.ok("trace", "--for", "100ms", "--chrome", "--output", path), "")
                with open(path, encoding="utf-8") as file:
                    rows = json.load(file)["traceEvents"]
                return rows if any(row["name"] == "put_many" for row in rows) else None

            rows = eventually(record, "a recording with puts in it")
        self.assertEqual({row["args"]["name"] for row in rows if row["ph"] == "M"}, {"shard 0", "shard 1"})
        spans = [row for row in rows if row["ph"] == "X"]
        self.assertTrue(all(row["dur"] >= 0 and row["ts"] >= 0 for row in spans))
        self.assertTrue(any(row["name"].startswith("batch of ") for row in spans))

    def test_a_get_shows_every_look_at_the_node_s_memory(self):
        with Node(*SMALL) as node:
            self.ok("put", "greeting", "hello", node=node)
            text = self.ok("trace", "get", "greeting", node=node)
            for step in ["by shm", "hash  0x", "the key's is number", "fingerprint", "slot ", "'s stamp",
                         "its lengths: key 8, value 5", "the key is the one asked for", "the value is copied",
                         "still the same", "the slot still names it", "version ", "no message"]:
                self.assertIn(step, text)
            self.assertEqual(node.run("trace", "get", "absent").returncode, 1)
            with node.stopped_server():
                self.assertIn("the value is copied", self.ok("trace", "get", "greeting", node=node))

    def test_a_put_shows_when_the_server_took_and_answered_it(self):
        for words, name in [(("put", "traced", "value"), "put"), (("erase", "traced"), "erase")]:
            text = self.ok("trace", *words)
            self.assertRegex(text, rf"server  takes {name}: ")
            self.assertRegex(text, rf"server  answers {name}: ok, ")
            self.assertRegex(text, r"client  has the answer\n\nversion \d+\n")
            self.assertRegex(text, r"shard [01] of 2")
        self.assertEqual(self.node.run("get", "traced").returncode, 1, "a traced erase is a real one")

    def test_one_at_a_time_may_record(self):
        with Node(*SMALL) as node:
            first = None

            def is_refused():
                nonlocal first
                # The first one, too, may have come when another was recording.
                if first is None or first.poll() is not None:
                    first = subprocess.Popen([Programs.refract, "trace", "--for", "50s", "--socket",
                                              node.socket], stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL, env=clean_environment())
                return b"another session" in node.run("trace", "--for", "1ms").stderr

            eventually(is_refused, "a refusal")
            # A client that goes away in the middle leaves nothing behind.
            first.kill()
            first.wait()
            eventually(lambda: node.run("trace", "--for", "1ms").returncode == 0, "a recording")

    def test_what_cannot_be_traced_is_refused(self):
        for words in [("trace", "scan"), ("trace", "get"), ("trace", "put", "k"), ("trace", "get", "k", "v"),
                      ("trace", "--for", "soon"), ("top", "--interval", "0s"), ("top", "k")]:
            self.refused(2, *words)


class OverTcp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="refract-secret-")
        cls.addClassCleanup(made.cleanup)
        cls.secrets = {}
        for name in ["right", "wrong"]:
            cls.secrets[name] = os.path.join(made.name, name)
            with open(cls.secrets[name], "w", encoding="ascii") as file:
                file.write(os.urandom(16).hex())
            os.chmod(cls.secrets[name], 0o600)
        cls.node = Node("--server-shards", "2", "--memory-initial", "64MiB", "--memory-limit", "256MiB",
                        "--listen-address", "127.0.0.1:0", "--auth-secret-file", cls.secrets["right"])
        cls.addClassCleanup(cls.node.__exit__)

    def run_over(self, transport, *words, secret="right"):
        address = f"refract://{self.node.tcp_address}?transport={transport}"
        return subprocess.run([Programs.refract, *words, "--address", address, "--secret-file",
                               self.secrets[secret]], capture_output=True, timeout=PATIENCE_S, check=False,
                              env=clean_environment())

    def ok(self, transport, *words):
        done = self.run_over(transport, *words)
        self.assertEqual(done.returncode, 0, (words, done.stderr))
        return done.stdout.decode()

    def test_top_sees_who_comes_over_tcp_and_who_by_shared_memory(self):
        by_tcp = json.loads(self.ok("tcp", "top", "--once", "--json", "--interval", "20ms"))
        self.assertEqual(by_tcp["transport"], "tcp")
        self.assertEqual(len(by_tcp["shards"]), 2)
        mine = [one for one in by_tcp["connections"] if one["transport"] == "tcp"]
        self.assertEqual(len(mine), 2)
        for one in mine:
            self.assertRegex(one["peer"], r"^127\.0\.0\.1:\d+$")
        self.assertGreater(by_tcp["counters"]["tcp.bytes_received"], 0)
        by_auto = json.loads(self.ok("auto", "top", "--once", "--json", "--interval", "20ms"))
        self.assertEqual(by_auto["transport"], "shm")

    def test_ping_says_why_each_transport_was_taken_or_not(self):
        why = self.ok("auto", "ping", "--why")
        self.assertRegex(why, r"(?m)^transport +shm: \S.+\n +not verbs: \S.+\n +not tcp: \S")
        self.assertRegex(why, r"2 of 2 shards reached")
        why = self.ok("tcp", "ping", "--why")
        self.assertRegex(why, r"(?m)^transport +tcp: \S")
        self.assertRegex(why, r"(?m)^reads +by the server: \S")
        told = json.loads(self.ok("auto", "ping", "--json"))
        self.assertEqual(told["transport"], "shm")
        self.assertEqual([other["transport"] for other in told["others"]], ["verbs", "tcp"])
        self.assertTrue(told["chosen"] and all(other["reason"] for other in told["others"]))

    def test_one_operation_is_traced_over_tcp(self):
        text = self.ok("tcp", "trace", "put", "k", "value")
        self.assertRegex(text, r"server  takes put: ")
        self.assertRegex(text, r"client  has the answer")
        self.assertIn("by tcp", text)
        text = self.ok("tcp", "trace", "get", "k")
        self.assertRegex(text, r"server  answers get: ok, ")
        self.assertIn("5 B", text)
        self.assertIn("the value is copied", self.ok("auto", "trace", "get", "k"))

    def test_a_wrong_secret_shows_nothing(self):
        for words in [("top", "--once"), ("trace",), ("stat",), ("trace", "get", "k")]:
            done = self.run_over("tcp", *words, secret="wrong")
            self.assertNotEqual(done.returncode, 0, words)
            self.assertEqual(done.stdout, b"", words)
            self.assertIn(b"secret", done.stderr)


class Stat(WithNode):
    def test_each_shard_s_part_is_told(self):
        for i in range(20):
            self.ok("put", f"key{i}", "v")
        told = json.loads(self.ok("stat", "--json"))
        self.assertEqual([shard["shard"] for shard in told["shards"]], [0, 1])
        self.assertEqual(sum(shard["entries"] for shard in told["shards"]), told["entries"])
        text = self.ok("stat")
        self.assertRegex(text, r"(?m)^shard +entries +live")
        self.assertRegex(text, r"(?m)^1 +\d+ ")


class Check(unittest.TestCase):
    def test_every_shard_is_looked_through_in_memory_and_in_files(self):
        with tempfile.TemporaryDirectory(prefix="refract-store-") as store:
            with Node("--server-shards", "2", "--memory-backing", "file:" + store, *SMALL) as node:
                lines = b"".join(b"key%d,a value to be found %d\n" % (i, i) for i in range(500))
                node.run("load", "--format", "csv", "--header", "no", "-", data=lines)
                live = node.run("check", "--json").stdout.splitlines()
                self.assertEqual(sum(json.loads(line)["entries"] for line in live), 500)
                files = node.run("check", "--json", "--path", store)
                self.assertEqual(files.returncode, 0, files.stderr)
                self.assertEqual(len(files.stdout.splitlines()), 2)
            path = os.path.join(store, "region-000.1")
            with open(path, "r+b") as file:
                at = file.read().index(b"a value to be found")
                file.seek(at - 3)
                file.write(b"?")
            done = subprocess.run([Programs.refract, "check", "--path", store], capture_output=True,
                                  timeout=PATIENCE_S, check=False, env=clean_environment())
            self.assertEqual(done.returncode, 1)
            self.assertIn(b", shard 1", done.stdout)


class Addresses(WithNode):
    def test_a_node_is_found_by_each_form_of_its_address(self):
        for address in [self.node.socket, "shm:" + self.node.socket, "refract://" + self.node.socket]:
            done = subprocess.run([Programs.refract, "ping", "--why", "--address", address],
                                  capture_output=True, timeout=PATIENCE_S, check=False,
                                  env=clean_environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"answers in", done.stdout)

    def test_socket_and_address_together_are_refused(self):
        self.refused(2, "ping", "--address", "shm:/x")


if __name__ == "__main__":
    Programs.refractd, Programs.refract = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
