# SPDX-License-Identifier: Apache-2.0
"""What three nodes on this host are started with that share their objects."""

import os
import socket
import tempfile

NAMES = ("a", "b", "c")


def _free_ports(count):
    """Of loopback, that nothing listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class ListedNodes:
    """Addresses, and a secret in a folder that goes with cleanup()."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="refract-cli-")
        self.cleanup = self._folder.cleanup
        self.secret = os.path.join(self._folder.name, "secret")
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("what the nodes of this test know")
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, _free_ports(len(NAMES)))}

    def flags(self, name):
        nodes = ",".join(f"{one}={address}" for one, address in self.addresses.items())
        return ["--cluster-nodes", nodes, "--cluster-self", name, "--cluster-secret-file", self.secret,
                "--listen-address", self.addresses[name]]
