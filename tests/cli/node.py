# SPDX-License-Identifier: Apache-2.0
"""A node and its command line client as the tests of this folder use them: real processes."""

import contextlib
import glob
import os
import signal
import subprocess
import tempfile
import time

# Nothing here is measured; this only ends a test that would otherwise hang for ever.
PATIENCE_S = 60


class Programs:
    refractd = ""
    refract = ""


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("REFRACT_")}


def run_client(*words, socket=None, data=b"", environment=None):
    command = [Programs.refract, *words]
    if socket is not None:
        command[1:1] = ["--socket", socket]
    return subprocess.run(command, input=data, capture_output=True, timeout=PATIENCE_S, check=False,
                          env={**clean_environment(), **(environment or {})})


def _until(is_so, what):
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"the server {what}")
        time.sleep(0.001)


def _state_in(path):
    """The letter of such a file of /proc; None: what it is of has ended."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def stands(process):
    """Whether all of its threads are stopped."""
    states = [_state_in(path) for path in glob.glob(f"/proc/{process}/task/*/stat")]
    return bool(states) and all(state is None or state in "TtZX" for state in states)


class Node:
    def __init__(self, *flags):
        self._made = tempfile.TemporaryDirectory(prefix="refract-cli-")
        self.folder = self._made.name
        self.socket = os.path.join(self.folder, "node.sock")
        self.process = subprocess.Popen(
            [Programs.refractd, "--socket-path", self.socket, *flags], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=clean_environment())
        # The banner is printed when the socket is there.
        banner = self.process.stdout.readline().decode()
        if "ready" not in banner:
            raise RuntimeError(f"the node did not start: {banner}")
        self.tcp_address = ""  # Where it listens.
        self.banner = banner
        while not banner.startswith("  stop"):
            banner = self.process.stdout.readline().decode()
            self.banner += banner
            if banner.startswith("  tcp"):
                self.tcp_address = banner.split()[1]
            if not banner:
                raise RuntimeError("the node's banner ends early")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self._made.cleanup()

    def run(self, *words, data=b"", environment=None):
        return run_client(*words, socket=self.socket, data=data, environment=environment)

    def server_now(self):
        """The server's process id; IndexError while there is none."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])

    def server(self):
        """The server's process id; waits for one."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                return self.server_now()
            except IndexError:
                time.sleep(0.01)
        raise RuntimeError("no server was started")

    @contextlib.contextmanager
    def stopped_server(self):
        """Its threads stand when the block begins: what one of them has begun may be done until then."""
        server = self.server()
        os.kill(server, signal.SIGSTOP)
        try:
            _until(lambda: stands(server), "does not stop")
            yield server
        finally:
            os.kill(server, signal.SIGCONT)

    def kill_server(self):
        """Returns when it is dead: a call that it takes before that may be answered or not."""
        server = self.server()
        os.kill(server, signal.SIGKILL)
        _until(lambda: _state_in(f"/proc/{server}/stat") in ("Z", "X", None), "does not die")
