#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.connectors.lmcache against a stand-in with RemoteConnector's signatures, over shm and tcp.

LMCache itself is not run. Some 3 s.
Usage: lmcache_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import asyncio
import ctypes
import importlib
import inspect
import logging
import os
import random
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "stand_ins")]
from setting import Node, begin, run_python, until  # noqa: E402

begin()
import refract  # noqa: E402
import torch  # noqa: E402
from lmcache.v1.memory_management import MemoryFormat  # noqa: E402
from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector  # noqa: E402

FORMAT = MemoryFormat.KV_2LTD
SHAPE = torch.Size([2, 3, 16, 64])
SHAPE_BYTES = SHAPE.numel() * 2


class Key:
    def __init__(self, text):
        self.text = text

    def to_string(self):
        return self.text


class Chunk:
    """A memory object over memory that is not Python's, as LMCache's are."""

    def __init__(self, backend, shape, dtype, fmt, size):
        self.backend, self.shape, self.dtype, self.fmt = backend, shape, dtype, fmt
        self.memory = (ctypes.c_ubyte * size)()
        self.references = 1

    @property
    def byte_array(self):
        return memoryview(self.memory)

    def get_size(self):
        return len(self.memory)

    def get_shape(self):
        return self.shape

    def get_dtype(self):
        return self.dtype

    def get_memory_format(self):
        return self.fmt

    def ref_count_up(self):
        self.references += 1

    def ref_count_down(self):
        self.references -= 1
        if self.references == 0:
            self.backend.live -= 1


class Backend:
    """Gives memory objects, counts those that are not given back, and may be full."""

    def __init__(self):
        self.live, self.asked, self.room, self.is_wrong = 0, 0, 1000, False

    def allocate(self, shape, dtype, fmt):
        self.asked += 1
        if self.live == self.room:
            return None
        self.live += 1
        size = shape.numel() * dtype.itemsize if dtype is not None else shape[0]
        return Chunk(self, shape, dtype, fmt, size - 1 if self.is_wrong else size)


class Config:
    def __init__(self, **extra):
        self.extra_config = extra


class Loop:
    """An event loop in a thread of its own, as LMCache has one; counts what it does in other threads."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.given_away = 0
        executor = ThreadPoolExecutor(4)
        submit = executor.submit

        def counted(*words):
            self.given_away += 1
            return submit(*words)

        executor.submit = counted
        self.loop.set_default_executor(executor)
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def begin(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine):
        return self.begin(coroutine).result(30)

    def end(self):
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def front_of_text(text):
    return (b"refract\x07\1\0\0\0" + len(text).to_bytes(4, "little") + bytes(8) + text).ljust(
        -(-(24 + len(text)) // 64) * 64, b"\0")


def keys_of(*names):
    return [Key(name) for name in names]


class EachWay:
    is_tcp = False

    @classmethod
    def setUpClass(cls):
        cls.node = Node("--memory-limit", "64MiB", "--listen-address", "127.0.0.1:0")
        cls.addClassCleanup(cls.node.__exit__)
        cls.address = cls.address_of(cls.node)
        cls.client = refract.connect(cls.node.socket)
        cls.loop = Loop()
        cls.addClassCleanup(cls.loop.end)

    @classmethod
    def address_of(cls, node):
        return f"refract://{node.tcp_address}?transport=tcp" if cls.is_tcp else node.socket

    def setUp(self):
        for key in list(self.client.scan()):
            self.client.erase(key)
        self.backend = Backend()
        self.connector = self.made(refract_address=self.address)
        logging.disable()
        self.addCleanup(logging.disable, logging.NOTSET)

    def made(self, **extra):
        """As LMCache does it, by module path and name."""
        one = getattr(importlib.import_module("refract.connectors.lmcache"), "RefractConnector")
        assert issubclass(one, RemoteConnector)
        connector = one(loop=self.loop.loop, local_cpu_backend=self.backend, config=Config(**extra))
        self.addCleanup(lambda: self.loop.run(connector.close()))
        return connector

    def chunk(self, shape=SHAPE, dtype=torch.bfloat16, fmt=FORMAT, seed=1):
        one = Backend().allocate(shape, dtype, fmt)
        one.byte_array.cast("B")[:] = random.Random(seed).randbytes(one.get_size())
        return one

    def put(self, name, chunk):
        self.loop.run(self.connector.put(Key(name), chunk))

    def get(self, name):
        return self.loop.run(self.connector.get(Key(name)))

    def same(self, one, other):
        self.assertEqual((one.shape, one.dtype, one.fmt), (other.shape, other.dtype, other.fmt))
        self.assertEqual(bytes(one.memory), bytes(other.memory))

    def test_a_chunk_comes_back_with_its_metadata_out_of_one_entry(self):
        cases = [(SHAPE, torch.bfloat16, FORMAT), (torch.Size([1, 1, 1, 1]), torch.uint8, FORMAT),
                 (torch.Size([4, 0, 0, 0]), torch.float32, MemoryFormat.KV_MLA_FMT),
                 (torch.Size([7, 0, 0, 0]), None, MemoryFormat.BINARY_BUFFER),
                 (torch.Size([2, 8, 64, 2048]), torch.bfloat16, FORMAT)]  # 4 MiB.
        for number, case in enumerate(cases):
            chunk = self.chunk(*case, seed=number)
            self.put(f"k{number}", chunk)
            self.same(self.get(f"k{number}"), chunk)
            self.assertEqual(chunk.references, 1)
        self.assertEqual(len(list(self.client.scan("lmcache/"))), len(cases))
        self.assertEqual(self.backend.live, len(cases))
        self.put("k0", self.chunk(seed=9))
        self.same(self.get("k0"), self.chunk(seed=9))

    def test_what_is_missing_in_the_middle_ends_a_prefix(self):
        chunks = [self.chunk(seed=seed) for seed in range(3)]
        self.loop.run(self.connector.batched_put(keys_of("a", "b", "d"), chunks))
        every = keys_of("a", "b", "c", "d")
        self.assertEqual(self.loop.run(self.connector.batched_async_contains("id", every, True)), 2)
        self.assertEqual(self.loop.run(self.connector.batched_async_contains("id", [])), 0)
        got = self.loop.run(self.connector.batched_get_non_blocking("id", every))
        self.assertEqual(len(got), 2)
        self.assertEqual(self.backend.live, 2)
        for one, other in zip(got, chunks):
            self.same(one, other)
        got = self.loop.run(self.connector.batched_get(every))
        self.assertEqual([one is None for one in got], [False, False, True, False])
        self.same(got[3], chunks[2])
        self.assertIsNone(self.get("c"))
        self.assertEqual([self.loop.run(self.connector.exists(key)) for key in every],
                         [True, True, False, True])
        self.assertEqual([self.connector.exists_sync(key) for key in every], [True, True, False, True])

    def test_a_value_that_lies_is_no_chunk_and_asks_for_no_memory_object(self):
        self.put("a", self.chunk(torch.Size([1, 1, 1, 8])))
        sound = self.client.get("lmcache/a")
        self.assertIsNotNone(self.get("a"))
        live = self.backend.live
        lies = [b"", b"refract\x07", sound[:-1], sound + b"1", sound[:24], sound[:64], bytes(len(sound))]
        for before, after in ((b"bfloat16", b"bfloat17"), (b"bfloat16", b"__name__"), (b"{", b"["),
                              (b"KV_2LTD", b"KV_2LTE"), (b"shape", b"shapf"), (b"[1,1,1,8]", b"[1,1,1,9]"),
                              (b"[1,1,1,8]", b"[1,1,-1,8"), (b"[1,1,1,8]", b"[1,1,1.,8"),
                              (b"[1,1,1,8]", b'"1,1,1,8"'), (b'{"dtype":"bfloat16"', b"[" * 19)):
            assert before in sound
            lies.append(sound.replace(before, after))
        # So long a text would be one that ends the parser.
        lies.append(front_of_text(b"[" * 100_000))
        for lie in lies:
            self.client.put("lmcache/a", lie)
            self.assertIsNone(self.get("a"), lie)
        self.assertEqual(self.backend.asked, live)
        chance = random.Random(7)
        for _ in range(300):
            lie = bytearray(sound)
            lie[chance.randrange(24 + 60)] = chance.randrange(256)
            self.client.put("lmcache/a", lie)
            got = self.get("a")
            if got is not None:
                got.ref_count_down()
        self.assertEqual(self.backend.live, live)

    def test_where_no_memory_is_given_nothing_is_lost(self):
        chunks = [self.chunk(seed=seed) for seed in range(4)]
        self.loop.run(self.connector.batched_put(keys_of("a", "b", "c", "d"), chunks))
        self.backend.room = 2
        got = self.loop.run(self.connector.batched_get_non_blocking("id", keys_of(*"abcd")))
        self.assertEqual(len(got), 2)
        self.assertIsNone(self.get("a"))
        self.backend.room, self.backend.is_wrong = 1000, True
        self.assertIsNone(self.get("a"))
        self.assertEqual(self.backend.live, 2)

    def test_batches_that_fail_give_back_what_they_have_taken(self):
        self.put("a", self.chunk())
        keys = [*keys_of("a", "a"), Key("k" * 70_000)]
        for coroutine in (self.connector.batched_get(keys),
                          self.connector.batched_get_non_blocking("i", keys)):
            with self.assertRaises(refract.TooLarge):
                self.loop.run(coroutine)
        self.assertEqual(self.backend.live, 0)
        # The others of a batch are stored.
        with self.assertRaises(refract.TooLarge):
            self.loop.run(self.connector.batched_put([keys[2], Key("b")], [self.chunk(), self.chunk()]))
        self.assertTrue(self.connector.exists_sync(Key("b")))

    def test_a_put_that_is_cancelled_ends_when_it_has_let_go_of_the_memory(self):
        with self.node.stopped_server():
            begun = self.loop.given_away
            task = self.loop.begin(self.as_task(self.connector.put(Key("a"), self.chunk())))
            until(lambda: self.loop.given_away > begun)
            time.sleep(0.05)
            self.loop.loop.call_soon_threadsafe(self.task.cancel)
            self.loop.loop.call_soon_threadsafe(self.task.cancel)
            time.sleep(0.05)
            self.assertFalse(task.done())
        self.assertEqual(task.result(30), "cancelled")

    async def as_task(self, coroutine):
        self.task = asyncio.ensure_future(coroutine)
        try:
            await self.task
        except asyncio.CancelledError:
            return "cancelled"
        except refract.Error:
            return "failed"

    def test_keys_are_listed_and_removed(self):
        self.put("m@1@0@abc", self.chunk())
        self.client.put("other", b"1")
        self.assertEqual(self.loop.run(self.connector.list()), ["m@1@0@abc"])
        self.assertTrue(self.connector.remove_sync(Key("m@1@0@abc")))
        self.assertFalse(self.connector.remove_sync(Key("m@1@0@abc")))
        self.assertEqual(self.loop.run(self.connector.list()), [])

    def test_it_says_what_it_can(self):
        for what in ("ping", "batched_get", "batched_put", "batched_async_contains",
                     "batched_get_non_blocking"):
            self.assertIs(getattr(self.connector, "support_" + what)(), True)
        self.assertEqual(self.loop.run(self.connector.ping()), 0)

    def test_prefix_and_ttl_are_those_of_the_configuration(self):
        connector = self.made(refract_address=self.address, refract_prefix="x/", refract_ttl=100)
        self.loop.run(connector.put(Key("a"), self.chunk()))
        self.assertTrue(90 < self.client.ttl("x/a") <= 100)
        self.assertFalse(self.connector.exists_sync(Key("a")))

    def test_it_is_closed_twice_and_raises_afterwards(self):
        self.put("a", self.chunk())
        for _ in range(2):
            self.loop.run(self.connector.close())
        for call in (lambda: self.get("a"), lambda: self.put("a", self.chunk()),
                     lambda: self.connector.exists_sync(Key("a")),
                     lambda: self.loop.run(self.connector.list())):
            with self.assertRaises(refract.Error):
                call()
        self.assertEqual(self.loop.run(self.connector.ping()), -1)

    def test_a_node_that_is_gone_is_an_error_that_lmcache_catches(self):
        with Node("--memory-limit", "64MiB", "--listen-address", "127.0.0.1:0") as node:
            address = self.address_of(node)
            connector = self.made(refract_address=address, refract_timeout=0.2)
            self.loop.run(connector.put(Key("a"), self.chunk()))
        with self.assertRaises(refract.Error):
            self.loop.run(connector.put(Key("b"), self.chunk()))
        self.assertEqual(self.loop.run(connector.ping()), -1)
        with self.assertRaises(refract.Error):
            self.made(refract_address=address, refract_timeout=0.2)


class OverShm(EachWay, unittest.TestCase):
    def test_what_reads_needs_no_thread_and_no_server(self):
        both = keys_of("a", "b")
        self.loop.run(self.connector.batched_put(both, [self.chunk(seed=1), self.chunk(seed=2)]))
        begun = self.loop.given_away
        with self.node.stopped_server():
            self.same(self.get("a"), self.chunk(seed=1))
            self.assertEqual(len(self.loop.run(self.connector.batched_get_non_blocking("i", both))), 2)
            self.assertTrue(self.loop.run(self.connector.exists(Key("a"))))
            self.assertEqual(self.loop.run(self.connector.batched_async_contains("i", both)), 2)
        self.assertEqual(self.loop.given_away, begun)

    def test_nothing_stays_held(self):
        self.put("a", self.chunk(torch.Size([2, 2, 64, 64])))
        for _ in range(600):
            self.get("a").ref_count_down()
        with self.client.view("lmcache/a") as view:
            self.assertFalse(view.is_copy)


class OverTcp(EachWay, unittest.TestCase):
    is_tcp = True

    def test_what_waits_for_the_network_does_so_in_another_thread(self):
        self.put("a", self.chunk())
        for call in (self.connector.get, self.connector.exists):
            begun = self.loop.given_away
            self.assertTrue(self.loop.run(call(Key("a"))))
            self.assertEqual(self.loop.given_away, begun + 1)


class Shape(unittest.TestCase):
    def test_each_method_has_the_signature_of_the_stand_in(self):
        one = importlib.import_module("refract.connectors.lmcache").RefractConnector
        self.assertFalse(one.__abstractmethods__)
        for name, method in vars(RemoteConnector).items():
            if inspect.isfunction(method):
                self.assertIn(name, vars(one))
                self.assertTrue(getattr(one, name).__doc__, name)
                shown = [(each.name, each.default) for each in inspect.signature(method).parameters.values()]
                ours = inspect.signature(getattr(one, name)).parameters.values()
                self.assertEqual([(each.name, each.default) for each in ours], shown, name)
                self.assertEqual(inspect.iscoroutinefunction(getattr(one, name)),
                                 inspect.iscoroutinefunction(method), name)

    def test_a_chunk_has_the_bytes_of_its_page(self):
        """docs/formats/lmcache-chunk.md; what its lines leave out is 0."""
        module = importlib.import_module("refract.connectors.lmcache")
        path = os.path.join(HERE, "..", "..", "docs", "formats", "lmcache-chunk.md")
        with open(path, encoding="utf-8") as page:
            lines = page.read().split("```golden\n")[1].split("```")[0].splitlines()
        chunk = bytearray()
        for line in lines:
            at, said = line.split(" ", 1)
            chunk = chunk.ljust(int(at, 16), b"\0") + bytes.fromhex(said.split("   ")[0])
        front = module.front_of([1, 1, 1, 3], "uint8", "KV_2LTD", 3)
        self.assertEqual(front + b"red", chunk)
        self.assertEqual(module.parse_front(memoryview(chunk)), (128, [1, 1, 1, 3], "uint8", "KV_2LTD"))
        for lie in (chunk[:-1], chunk + b"1", front_of_text(b" " * 5000 + chunk[24:75])):
            with self.assertRaisesRegex(ValueError, "lengths"):
                module.parse_front(memoryview(lie))
        self.assertIn(b'{"dtype":null', module.front_of([7], None, "BINARY_BUFFER", 7))

    def test_it_is_an_object_where_lmcache_is_not_there(self):
        done = run_python("""
            from refract.connectors.lmcache import RefractConnector
            say(RefractConnector.__bases__)
            """)
        self.assertEqual((done.returncode, done.stdout), (0, "(<class 'object'>,)\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
