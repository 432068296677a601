# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of this folder share: the build, a Redis beside it, figures by rounds, and their bars.

Each is called with [BUILD] [ROUNDS], and needs scripts/setup bars, and `ninja -C BUILD refract_python
own_calls refractd`.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
import timeit

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 11
sys.path[:0] = [os.path.join(BUILD, "python"),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cli")]
import redis  # noqa: E402
from node import Node, Programs  # noqa: E402,F401

Programs.refractd = os.path.join(BUILD, "bin", "refractd")
MIB = 1 << 20


class RedisServer:
    """Debian's server, which has two names, on a socket of its own and without files. `port`: there, too."""

    def __init__(self, folder, port=0):
        self.socket = os.path.join(folder, "redis.sock")
        executable = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--unixsocket", self.socket, "--save", "", "--dir", folder],
            executable=executable, stdout=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            time.sleep(0.01)

    def __enter__(self):
        return redis.Redis(unix_socket_path=self.socket)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def us_of(call, calls, batches=20):
    """Of the quickest of some batches, since others use the machine, too."""
    number = max(1, calls // batches)
    return min(timeit.repeat(call, number=number, repeat=batches)) / number * 1e6


class Figures(dict):
    def take(self, name, value):
        self.setdefault(name, []).append(value)

    def median(self, name):
        return statistics.median(self[name])

    def line(self, what, value, unit, ratio=None, bar=None, is_kept=None):
        text = f"{what:<46} {value:>10.2f} {unit:<4}"
        if ratio is not None:
            text += f" {ratio:>8.2f}  bar {bar}"
        if is_kept is not None:
            text += "" if is_kept else "  MISSED"
        print(text)

    def beside(self, what, name, other, least, unit="us"):
        """How many times as quick as the other it is, and at least should be."""
        ratio = self.median(other) / self.median(name)
        self.line(what, self.median(name), unit, ratio, f"{least} times {other}", ratio >= least)
