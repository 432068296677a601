#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A name server that is silent keeps no call beyond its deadline.

The system's resolver would wait for it for minutes here. In namespaces, since resolv.conf is the whole
machine's.

Usage: resolver_test.py REFRACTD REFRACT [unittest arguments]
"""

import os
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from namespaces import enter_namespaces  # noqa: E402
from node import PATIENCE_S, Node, Programs, run_client  # noqa: E402


def bind_file(folder, place, text):
    path = os.path.join(folder, os.path.basename(place))
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    subprocess.run(["mount", "--bind", path, place], check=True)


class SilentNameServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        cls.addClassCleanup(cls.server.close)
        cls.server.bind(("127.0.0.1", 53))
        bind_file(cls.folder.name, "/etc/resolv.conf",
                  "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
        bind_file(cls.folder.name, "/etc/nsswitch.conf", "hosts: files dns\n")

    @classmethod
    def tearDownClass(cls):
        for place in ("/etc/resolv.conf", "/etc/nsswitch.conf"):
            subprocess.run(["umount", "--lazy", place], check=True)

    def test_ends_a_call_at_its_deadline_with_a_sentence(self):
        done = run_client("--address", "refract://silent.example:7400", "get", "key", "--timeout", "300ms")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"silent.example", done.stderr)
        self.assertIn(b"no name server has answered in time", done.stderr)
        self.server.settimeout(PATIENCE_S)
        self.assertIn(b"silent", self.server.recv(512), "it was asked")

    def test_is_not_asked_for_numbers_and_names_of_this_host(self):
        with Node("--listen-address", "127.0.0.1:0", "--memory-initial", "16MiB") as node:
            port = node.tcp_address.rsplit(":", 1)[1]
            for host in ("127.0.0.1", "localhost"):
                address = f"refract://{host}:{port}?transport=tcp"
                done = run_client("--address", address, "put", "key", "value")
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    enter_namespaces()
    Programs.refractd, Programs.refract = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
