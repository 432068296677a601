# SPDX-License-Identifier: Apache-2.0
"""A node with a door for Redis clients, a Redis beside it, and connections that show each byte of a reply."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from node import PATIENCE_S, Node  # noqa: E402


def request(*words):
    """As an array of bulk strings."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def number(reply):
    assert reply[:1] == b":", reply
    return int(reply[1:])


def at_once(count, work):
    """`work` of 0 to count - 1, each in a thread; what they return."""
    results, wrong = [None] * count, []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as error:  # Raised again by the thread that waits.
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        if thread.is_alive():
            wrong.append(TimeoutError("a client has not ended"))
    if wrong:
        raise wrong[0]
    return results


class Connection:
    def __init__(self, address):
        kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(kind, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.came = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the connection ended")
        self.came += data

    def _line(self, at):
        while (end := self.came.find(b"\r\n", at)) < 0:
            self._more()
        return end + 2

    def _end_of_reply(self, at):
        end = self._line(at)
        kind = self.came[at : at + 1]
        if kind in b"+-:_,#(":
            return end
        count = int(self.came[at + 1 : end - 2])
        if kind in b"$=":
            if count < 0:
                return end
            while len(self.came) < end + count + 2:
                self._more()
            return end + count + 2
        for _ in range(2 * count if kind == b"%" else max(count, 0)):
            end = self._end_of_reply(end)
        return end

    def reply(self):
        """The bytes of the next one."""
        end = self._end_of_reply(0)
        reply, self.came = self.came[:end], self.came[end:]
        return reply

    def ask(self, *words):
        self.send(request(*words))
        return self.reply()

    def is_at_its_end(self):
        """Whether the other side has ended it, and said no more."""
        try:
            return self.came == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def secret_in(folder):
    """The path of a secret there, which is its owner's alone."""
    path = os.path.join(folder, "secret")
    with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("what the clients of this node know")
    return path


def until_connected(address):
    """Once something listens there."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Connection(address)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def children_of(process, name=None):
    """The process ids of those children that have this name; None: of all."""
    with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
        children = file.read().split()
    found = []
    for child in children:
        try:
            with open(f"/proc/{child}/comm", encoding="ascii") as file:
                if name is None or file.read().strip() == name:
                    found.append(int(child))
        except FileNotFoundError:
            pass
    return found


class Door(Node):
    """A node whose door listens at a port, and at a socket in its folder."""

    def __init__(self, *flags, listens=True):
        self._sockets = tempfile.TemporaryDirectory(prefix="refract-door-")
        self.path = os.path.join(self._sockets.name, "redis.sock")
        doors = ("--doors-listen", f"redis:127.0.0.1:0, redis:{self.path}") if listens else ()
        super().__init__(*doors, *flags)
        lines = [line.split() for line in self.banner.splitlines()]
        places = [line[1] for line in lines if line[:1] == ["redis"]]
        self.port = next((int(place.rsplit(":", 1)[1]) for place in places if ":" in place), 0)

    def __exit__(self, *_):
        super().__exit__()
        self._sockets.cleanup()

    def connect(self, by_path=False):
        return Connection(self.path if by_path else ("127.0.0.1", self.port))

    def server_now(self):
        return children_of(self.process.pid, "refractd")[0]

    def doors(self):
        """The process id of the doors; waits for one."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for child in children_of(self.process.pid, "refract-doors"):
                return child
            time.sleep(0.01)
        raise RuntimeError("no doors were started")


def redis_cli(door, *words):
    """What it prints, of a door at a port."""
    return subprocess.run(
        ["redis-cli", "-p", str(door.port), *words],
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
        text=True,
    ).stdout


class Redis:
    """Debian's, with a socket in a folder, and nothing on a disk."""

    def __init__(self, *flags):
        self._folder = tempfile.TemporaryDirectory(prefix="refract-redis-")
        self.path = os.path.join(self._folder.name, "redis.sock")
        # Debian's package of the tools holds the server too, under another name.
        program = shutil.which("redis-server")
        name = "redis-server"
        if program is None:
            program = os.path.join(self._folder.name, name)
            os.symlink(os.path.realpath(shutil.which("redis-check-rdb")), program)
        self.process = subprocess.Popen(
            [
                program,
                "--port",
                "0",
                "--unixsocket",
                self.path,
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                self._folder.name,
                *flags,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.connect().__exit__()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError("no Redis: scripts/setup test brings redis-tools") from None
                time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self._folder.cleanup()

    def connect(self):
        return Connection(self.path)
