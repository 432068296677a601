# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: a node with objects, and processes that use it.

Each test program is called with REFRACTD REFRACT FOLDER_OF_THE_PACKAGE.
"""

import asyncio
import contextlib
import glob
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from node import PATIENCE_S, Node, Programs, clean_environment  # noqa: E402

MIB = 1024 * 1024


class Package:
    folder = ""
    # What an interpreter that is not sanitized needs for an extension that is. Nodes have their own, and an
    # inherited one would end them.
    preload = os.environ.pop("LD_PRELOAD", "")


SKIPPED = 77


def begin():
    """Takes the paths out of the arguments. Before it the package cannot be imported.

    Where the package or numpy is not there, the program ends: as skipped, or, where CI is in the environment,
    as failed.
    """
    Programs.refractd, Programs.refract, Package.folder = (os.path.abspath(path) for path in sys.argv[1:4])
    del sys.argv[1:4]
    sys.path.insert(0, Package.folder)
    if not glob.glob(os.path.join(Package.folder, "refract", "_refract.*.so")):
        skip("the package is not there; scripts/setup python, then cmake again")
    needs("numpy")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(1 if "CI" in os.environ else SKIPPED)


def needs(*modules):
    """Where Debian's packages of these are not there, the program ends likewise."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            skip(f"{module} is not there; scripts/setup test")


def node_of_objects(limit="64MiB", *flags):
    return Node("--objects-limit", limit, "--memory-limit", "64MiB", *flags)


def command_of(program, *words):
    preamble = """
        import os, sys, time
        import numpy
        import refract
        from refract import objects
        def say(*words):
            print(*words, flush=True)
        """
    return [sys.executable, "-B", "-c", textwrap.dedent(preamble) + textwrap.dedent(program), *words]


def environment():
    return {**clean_environment(), "PYTHONPATH": Package.folder, "LD_PRELOAD": Package.preload}


def run_python(program, *words, **options):
    """Another process: what it printed, and how it ended."""
    return subprocess.run(command_of(program, *words), capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, env=environment(), **options)


@contextlib.contextmanager
def beside(program, *words):
    """Another process while this one continues; it is killed at the end, if it is there still."""
    with subprocess.Popen(command_of(program, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, env=environment()) as process:
        # A line that does not come is an empty one in the end.
        patience = threading.Timer(PATIENCE_S, process.kill)
        patience.start()
        try:
            yield process
        finally:
            patience.cancel()
            process.kill()


def until(is_so):
    """Nothing is measured: this ends a test that would hang."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError("it did not come to that")
        time.sleep(0.005)


class NodeOfClass:
    """For test cases: a node, and its address for one way to reach it."""

    is_tcp = False
    shards = "1"
    memory_limit = "256MiB"

    @classmethod
    def setUpClass(cls):
        cls.node = Node("--memory-limit", cls.memory_limit, "--server-shards", cls.shards,
                        "--listen-address", "127.0.0.1:0")
        cls.address = f"refract://{cls.node.tcp_address}?transport=tcp" if cls.is_tcp else cls.node.socket

    @classmethod
    def tearDownClass(cls):
        cls.node.__exit__()


class EmptyNode(NodeOfClass):
    """And a client, which finds no keys."""

    def setUp(self):
        import refract  # Behind begin().

        self.client = refract.connect(self.address)
        self.addCleanup(self.client.close)
        for key in self.client.scan():
            self.client.erase(key)

    def refused(self, error, says, call, *arguments, **options):
        with self.assertRaises(error) as caught:
            call(*arguments, **options)
        self.assertIn(says, str(caught.exception))
        return caught.exception


class AioNode(NodeOfClass):
    """A node, and a client of asyncio that reaches it in one way, in one kind of loop."""

    new_loop = staticmethod(asyncio.new_event_loop)

    def run_with(self, work, *, erases=True):
        """`await work(client)` in a loop of its own. What the loop is told of errors fails the test."""
        from refract import aio  # Behind begin().

        async def main():
            told = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
            async with await aio.connect(self.address) as client:
                if erases:
                    async for key in client.scan():
                        await client.erase(key)
                result = await work(client)
            self.assertEqual(told, [])
            return result

        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            return runner.run(main())

    async def refused(self, error, says, call, *arguments, **options):
        with self.assertRaises(error) as caught:
            await call(*arguments, **options)
        self.assertIn(says, str(caught.exception))
        return caught.exception
