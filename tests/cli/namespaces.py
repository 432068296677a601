# SPDX-License-Identifier: Apache-2.0
"""For tests whose commands name places and processes of the whole machine: mounts, processes and a network of
their own, with nothing but loopback."""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

INSIDE = "REFRACT_TEST_IS_IN_NAMESPACES"
SKIPPED = 77


def set_loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP and IFF_RUNNING, for SIOCSIFFLAGS.
        fcntl.ioctl(any_socket, 0x8914, request)


def enter_namespaces():
    """Replaces this process; returns only where it is inside already. Exits with SKIPPED where it may not."""
    if INSIDE in os.environ:
        set_loopback_up()
        return
    unshare = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        unshare[1:1] = ["--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False,
                                                         capture_output=True).returncode != 0:
        print("skipped: no namespaces may be made here")
        sys.exit(SKIPPED)
    os.environ[INSIDE] = "1"
    os.execvp(unshare[0], [*unshare, sys.executable, "-B", *sys.argv])
