#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract doctor as a person runs it: what this machine carries, and the path to a node.

Usage: doctor_test.py REFRACTD REFRACT [unittest arguments]
"""

import json
import os
import socket
import sys
import tempfile
import unittest

from node import Node, Programs, run_client

SMALL = ("--memory-initial", "32MiB", "--memory-limit", "64MiB", "--listen-address", "127.0.0.1:0")


def findings_of(done):
    """By name; of those of one name the last."""
    return {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}


class SelfTest(unittest.TestCase):
    def test_it_has_figures_for_each_path_and_a_verdict(self):
        done = run_client("doctor", "--json", "--memory-limit", "64MiB", "--listen-address", "127.0.0.1:0")
        findings = findings_of(done)
        for name in ["self-test shm", "self-test tcp"]:
            self.assertEqual(findings[name]["health"], "ok", findings[name])
            self.assertEqual(len(findings[name]["figures"]), 8)
            for figure, value in findings[name]["figures"].items():
                self.assertGreater(value, 0, (name, figure))
        self.assertEqual(json.loads(done.stdout)["findings"][-1]["name"], "verdict")
        self.assertEqual(done.stderr, b"", "progress is shown on a terminal only")

    def test_it_is_left_out_where_nothing_is_to_be_tried(self):
        done = run_client("doctor", "--no-self-test")
        self.assertNotIn(b"self-test", done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], rb"verdict|->")

    def test_a_device_that_is_named_and_not_there_fails(self):
        done = run_client("doctor", "--no-self-test", "--json", "--rdma-device", "mlx5_77",
                          "--listen-address", "127.0.0.1:0")
        self.assertEqual(done.returncode, 1)
        path = findings_of(done)["rdma path"]
        self.assertEqual(path["health"], "fail")
        self.assertIn("no RDMA device named 'mlx5_77'", path["found"])


class Peer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node(*SMALL)
        cls.addClassCleanup(cls.node.__exit__)

    def test_each_transport_is_tried_and_the_verdict_is_a_clients(self):
        done = run_client("doctor", "--peer", self.node.tcp_address, "--json")
        self.assertEqual(done.returncode, 0, done)
        findings = findings_of(done)
        self.assertEqual(list(findings), ["peer name", "peer connection", "peer handshake", "peer shm",
                                          "peer verbs", "peer tcp", "verdict"])
        self.assertIn("on this host", findings["peer handshake"]["found"])
        for name in ["peer shm", "peer tcp"]:
            self.assertEqual(findings[name]["health"], "ok", findings[name])
            for figure in ["ping_ns_p50", "ping_ns_p99", "put_bytes_per_s", "get_bytes_per_s"]:
                self.assertGreater(findings[name]["figures"][figure], 0, name)
        self.assertRegex(findings["verdict"]["found"], r"^shm: .+; not verbs: .+; not tcp: .+")
        entries = json.loads(self.node.run("stat", "--json").stdout)["entries"]
        self.assertEqual(entries, 0, "what was stored for the figures is gone")

    def test_without_figures_nothing_is_stored(self):
        before = json.loads(self.node.run("stat", "--json").stdout)["writes"]
        done = run_client("doctor", "--peer", self.node.tcp_address, "--no-self-test", "--json")
        self.assertEqual(done.returncode, 0, done)
        findings = findings_of(done)
        self.assertEqual(findings["peer tcp"]["figures"], {})
        self.assertRegex(findings["verdict"]["found"], r"^shm: ")
        self.assertEqual(json.loads(self.node.run("stat", "--json").stdout)["writes"], before)

    def test_a_socket_that_is_not_seen_here_is_said_and_tcp_is_taken(self):
        with Node(*SMALL) as node:
            os.rename(node.socket, node.socket + ".elsewhere")
            done = run_client("doctor", "--peer", node.tcp_address, "--no-self-test", "--json",
                              "--rdma-device", "none")
        self.assertEqual(done.returncode, 0, done)
        findings = findings_of(done)
        self.assertEqual(findings["peer shm"]["health"], "warn")
        self.assertIn("let this program see", findings["peer shm"]["mend"])
        self.assertIn("told to use no RDMA device", findings["peer verbs"]["found"])
        self.assertRegex(findings["verdict"]["found"], r"^tcp: .+; not shm: .+; not verbs: .+told to use no")

    def test_a_secret_that_is_missing_is_the_step_that_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            secret = os.path.join(folder, "secret")
            with open(secret, "w", encoding="ascii") as file:
                file.write(os.urandom(16).hex())
            os.chmod(secret, 0o600)
            with Node(*SMALL, "--auth-secret-file", secret) as node:
                without = run_client("doctor", "--peer", node.tcp_address, "--no-self-test", "--json")
                knowing = run_client("doctor", "--peer", node.tcp_address, "--no-self-test", "--json",
                                     "--secret-file", secret)
        self.assertEqual(without.returncode, 3)
        self.assertIn("wants a secret", findings_of(without)["peer handshake"]["found"])
        self.assertNotIn("verdict", findings_of(without))
        self.assertEqual(knowing.returncode, 0, knowing)
        self.assertIn("knows the secret", findings_of(knowing)["peer handshake"]["found"])

    def test_where_nobody_listens_the_text_says_so(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            place = f"127.0.0.1:{free.getsockname()[1]}"
            done = run_client("doctor", "--peer", place)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stdout.decode(), r"(?m)^FAIL +peer connection +.+no process listens.+\n +-> \S")


if __name__ == "__main__":
    Programs.refractd, Programs.refract = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
