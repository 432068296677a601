#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.connectors.sglang against a stand-in with HiCacheStorage's signatures, over shm and tcp. Some 2 s.

SGLang itself is not run. Usage: hicache_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import importlib
import inspect
import logging
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "stand_ins")]
from setting import Node, begin, run_python  # noqa: E402

begin()
import numpy  # noqa: E402
import refract  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage  # noqa: E402

TOKENS = 4  # Of a page.
PAGES = 16


class Config:
    """What HiCacheStorageConfig has."""

    def __init__(self, address, **more):
        self.tp_rank, self.tp_size, self.pp_rank, self.pp_size = 0, 2, 0, 1
        self.is_mla_model, self.model_name = False, "some/model"
        self.extra_config = {"backend_name": "refract", "module_path": "refract.connectors.sglang",
                             "class_name": "HiCache", "address": address}
        for name, value in more.items():
            setattr(self, name, value)


class Pool:
    """A host pool whose pages lie at `parts` addresses each, as keys and values do."""

    page_size = TOKENS

    def __init__(self, parts, page_bytes=4096):
        self.parts, self.page_bytes = parts, page_bytes
        self.memory = numpy.zeros((parts, PAGES, page_bytes), "u1")

    def get_page_buffer_meta(self, indices):
        pages = [int(index) // TOKENS for index in indices[::TOKENS]]
        places = [self.memory[part, page].ctypes.data for page in pages for part in range(self.parts)]
        return places, [self.page_bytes] * len(places)


class FlatPool(Pool):
    """One that does not say where its pages lie."""

    get_page_buffer_meta = None

    def get_dummy_flat_data_page(self):
        return numpy.zeros(self.parts * self.page_bytes, "u1")

    def set_from_flat_data_page(self, index, page):
        self.memory[:, index // TOKENS] = page.reshape(self.parts, self.page_bytes)

    def get_data_page(self, index, flat):
        assert flat
        return self.memory[:, index // TOKENS].reshape(-1).copy()


class UnsupportedPool(FlatPool):
    def get_page_buffer_meta(self, indices):
        raise NotImplementedError("this layout has no flat pages")


class Tensor:
    """What torch's tensors have of their place; torch is not in the tests."""

    def __init__(self, memory, device="cpu"):
        self.memory = memory
        self.device = type("device", (), {"type": device, "__str__": lambda self: self.type})()

    def data_ptr(self):
        return self.memory.ctypes.data

    def numel(self):
        return self.memory.size

    def element_size(self):
        return self.memory.itemsize

    def is_contiguous(self):
        return self.memory.flags.c_contiguous


def made(config):
    """As HiCache's factory does it."""
    module = importlib.import_module(config.extra_config["module_path"])
    one = getattr(module, config.extra_config["class_name"])
    assert issubclass(one, HiCacheStorage)
    return one(config, {})


def indices_of(*pages):
    return numpy.concatenate([numpy.arange(TOKENS) + page * TOKENS for page in pages])


class Full:
    """A client that stores no second part."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def put_many(self, items, **options):
        return [refract.NoSpace("full") if name.endswith("/1") else self.client.put(name, value, **options)
                for name, value in items]


class EachWay:
    is_tcp = False

    @classmethod
    def setUpClass(cls):
        cls.node = Node("--memory-limit", "64MiB", "--listen-address", "127.0.0.1:0")
        cls.address = f"refract://{cls.node.tcp_address}?transport=tcp" if cls.is_tcp else cls.node.socket
        cls.client = refract.connect(cls.node.socket)
        cls.addClassCleanup(cls.node.__exit__)

    def setUp(self):
        for key in list(self.client.scan()):
            self.client.erase(key)
        self.random = numpy.random.default_rng(5)
        logging.disable()
        self.addCleanup(logging.disable, logging.NOTSET)

    def storage(self, pool=None, **more):
        one = made(Config(self.address, **more))
        self.addCleanup(one.close)
        if pool is not None:
            one.register_mem_pool_host(pool)
        return one

    def filled(self, pool):
        pool.memory[...] = self.random.integers(1, 256, pool.memory.shape, "u1")
        return pool

    def test_pages_come_back_into_the_pool_as_they_were(self):
        for parts in (1, 2, 8):
            with self.subTest(parts=parts):
                pool = self.filled(Pool(parts))
                was = pool.memory.copy()
                storage = self.storage(pool, model_name=f"m{parts}")
                keys = ["a", "b", "c"]
                self.assertEqual(storage.batch_get_v1(keys, indices_of(5, 0, 9)), [False] * 3)
                numpy.testing.assert_array_equal(pool.memory, was)
                self.assertEqual(storage.batch_set_v1(keys, indices_of(5, 0, 9)), [True] * 3)
                pool.memory[...] = 0
                # Into other pages, and nothing beside them.
                self.assertEqual(self.storage(pool, model_name=f"m{parts}").batch_get_v1(
                    keys, indices_of(1, 2, 3)), [True] * 3)
                wanted = numpy.zeros_like(was)
                wanted[:, 1:4] = was[:, [5, 0, 9]]
                numpy.testing.assert_array_equal(pool.memory, wanted)
                self.assertEqual(len(list(self.client.scan(f"hicache/m{parts}/"))), 3 * parts)

    def test_what_is_missing_in_the_middle_ends_a_prefix_and_is_no_exception(self):
        storage = self.storage(self.filled(Pool(2)))
        self.assertEqual(storage.batch_set_v1(["a", "c"], indices_of(0, 2)), [True, True])
        self.assertEqual(storage.batch_exists(["a", "b", "c"]), 1)
        self.assertEqual(storage.batch_exists(["b", "c"]), 0)
        self.assertEqual(storage.batch_exists([]), 0)
        self.assertEqual((storage.exists("a"), storage.exists("b")), (True, False))
        self.assertEqual(storage.batch_get_v1(["a", "b", "c"], indices_of(4, 5, 6)), [True, False, True])
        numpy.testing.assert_array_equal(storage.mem_pool_host.memory[:, [4, 6]],
                                         storage.mem_pool_host.memory[:, [0, 2]])
        self.assertEqual((storage.batch_get_v1([], []), storage.batch_set_v1([], [])), ([], []))

    def test_a_page_of_another_size_is_not_there_and_is_replaced(self):
        long, short = self.filled(Pool(2, 8192)), self.filled(Pool(2, 4096))
        for before, after in ((long, short), (short, long)):
            self.assertEqual(self.storage(before).batch_set_v1(["a"], indices_of(0)), [True])
            storage = self.storage(after)
            self.assertEqual(storage.batch_get_v1(["a"], indices_of(1)), [False])
            self.assertEqual(storage.batch_set_v1(["a"], indices_of(0)), [True])
            self.assertEqual(storage.batch_get_v1(["a"], indices_of(1)), [True])
            numpy.testing.assert_array_equal(after.memory[:, 1], after.memory[:, 0])

    def test_a_page_that_has_lost_a_part_is_not_there_and_is_made_whole(self):
        storage = self.storage(self.filled(Pool(2)))
        for part in ("", "/1"):
            storage.batch_set_v1(["a"], indices_of(0))
            self.client.erase("hicache/some-model/tp0of2/a" + part)
            self.assertEqual(storage.batch_get_v1(["a"], indices_of(1)), [False])
            self.assertEqual(storage.batch_set_v1(["a"], indices_of(0)), [True])
            self.assertEqual(storage.batch_get_v1(["a"], indices_of(1)), [True])

    def test_a_page_of_which_a_part_cannot_be_stored_is_not_there(self):
        storage = self.storage(self.filled(Pool(2)))
        storage._client = Full(storage._client)
        self.assertEqual(storage.batch_set_v1(["a", "b"], indices_of(0, 1)), [False, False])
        self.assertEqual(storage.batch_exists(["a", "b"]), 0)

    def test_a_page_that_is_there_is_not_sent_again(self):
        storage = self.storage(self.filled(Pool(1)))
        storage.batch_set_v1(["a"], indices_of(0))
        version = self.client.get_versioned("hicache/some-model/tp0of2/a").version
        self.assertEqual(storage.batch_set_v1(["a", "b"], indices_of(0, 1)), [True, True])
        self.assertEqual(self.client.get_versioned("hicache/some-model/tp0of2/a").version, version)

    def test_plain_calls_take_over_where_the_pool_does_not_say_where_its_pages_lie(self):
        for kind in (FlatPool, UnsupportedPool):
            with self.subTest(kind=kind.__name__):
                pool = self.filled(kind(2))
                was = pool.memory.copy()
                storage = self.storage(pool, model_name=kind.__name__)
                self.assertEqual(storage.batch_set_v1(["a", "c"], indices_of(0, 2)), [True, True])
                self.assertEqual(storage.batch_get_v1(["a", "b", "c"], indices_of(4, 5, 6)),
                                 [True, False, True])
                was[:, [4, 6]] = was[:, [0, 2]]
                numpy.testing.assert_array_equal(pool.memory, was)
                # One value each, of both parts.
                self.assertEqual(len(self.client.get(f"hicache/{kind.__name__}/tp0of2/a")), 8192)

    def test_plain_calls_take_tensors_buffers_and_addresses(self):
        storage = self.storage()
        page = self.random.integers(0, 256, 4096, "u1")
        for number, source in enumerate((page, bytes(page), Tensor(page.view("u2")))):
            self.assertTrue(storage.set(f"k{number}", source))
        self.assertTrue(storage.set("k3", None, page.ctypes.data, 4096))
        for key in ("k0", "k1", "k2", "k3"):
            self.assertEqual(storage.get(key), bytes(page))
            target = numpy.zeros(2048, "u2")
            tensor = Tensor(target)
            self.assertIs(storage.get(key, tensor), tensor)
            numpy.testing.assert_array_equal(target.view("u1"), page)
            target[:] = 0
            self.assertEqual(storage.get(key, target.ctypes.data, 4096), target.ctypes.data)
            numpy.testing.assert_array_equal(target.view("u1"), page)
        self.assertIsNone(storage.get("none", bytearray(4096)))
        self.assertIsNone(storage.get("none"))
        for wrong in (4095, 4097):
            self.assertIsNone(storage.get("k0", bytearray(wrong)))
        rooms = [bytearray(4096) for _ in range(3)]
        self.assertEqual(storage.batch_get(["k0", "none", "k1"], rooms), [rooms[0], None, rooms[2]])
        self.assertIs(storage.batch_set(["x", "y"], [page, page]), True)
        self.assertEqual(storage.batch_exists(["x", "y", "z"]), 2)
        self.assertIs(storage.batch_set(["x", ""], [page, Tensor(page, "cuda:0")]), False)
        self.assertIs(storage.set("w", Tensor(page.reshape(64, 64).T)), False)

    def test_no_call_raises_and_none_returns_none(self):
        pool = self.filled(Pool(2))

        def all_are_failures(storage, pages, number=2):
            keys = ["a", "b"]
            self.assertEqual(storage.batch_get_v1(keys, pages), [False] * number)
            self.assertEqual(storage.batch_set_v1(keys, pages), [False] * number)

        all_are_failures(self.storage(), indices_of(0, 1))  # No pool is registered.
        all_are_failures(self.storage(object()), indices_of(0, 1))
        all_are_failures(self.storage(FlatPool(1)), numpy.arange(7))
        all_are_failures(self.storage(pool), numpy.arange(7))
        all_are_failures(self.storage(pool), indices_of(0))  # Of one page, which has two parts.
        single = Pool(1)
        single.page_size = None
        all_are_failures(self.storage(single), indices_of(0, 1, 2))
        long = "k" * 70_000
        storage = self.storage(pool)
        self.assertEqual(storage.batch_get_v1([long], indices_of(0)), [False])
        self.assertEqual(storage.batch_set_v1([long], indices_of(0)), [False])
        self.assertEqual((storage.exists(long), storage.get(long), storage.set(long, b"1")),
                         (False, None, False))
        self.assertTrue(storage.set("a", b"1"))
        storage.close()
        storage.close()
        all_are_failures(storage, indices_of(0, 1))
        self.assertEqual((storage.exists("a"), storage.batch_exists(["a"]), storage.get("a"),
                          storage.set("a", b"1"), storage.batch_get(["a"]), storage.clear()),
                         (False, 0, None, False, [None], None))

    def test_a_node_that_is_gone_is_no_exception_either(self):
        with Node("--memory-limit", "64MiB", "--listen-address", "127.0.0.1:0") as node:
            address = f"refract://{node.tcp_address}?transport=tcp" if self.is_tcp else node.socket
            config = Config(address)
            config.extra_config["timeout"] = 0.2
            storage = made(config)
            storage.register_mem_pool_host(self.filled(Pool(2)))
            self.assertEqual(storage.batch_set_v1(["a"], indices_of(0)), [True])
        self.assertEqual(storage.batch_set_v1(["b"], indices_of(0)), [False])
        self.assertEqual(storage.batch_get_v1(["b"], indices_of(1)), [False])
        self.assertFalse(storage.set("b", b"1"))
        storage.clear()
        storage.close()

    def test_models_and_ranks_have_pages_of_their_own(self):
        page = bytes(100)
        one, other = self.storage(), self.storage(tp_rank=1)
        self.assertTrue(one.set("a", page))
        self.assertFalse(other.exists("a"))
        self.assertFalse(self.storage(model_name="other").exists("a"))
        self.assertFalse(self.storage(pp_size=2).exists("a"))
        self.assertTrue(self.storage(tp_rank=0).exists("a"))
        self.assertTrue(self.storage(is_mla_model=True).set("m", page))
        self.assertTrue(self.storage(is_mla_model=True, tp_rank=1).exists("m"))
        other.set("b", page)
        one.clear()
        self.assertEqual((one.exists("a"), other.exists("b")), (False, True))
        self.assertIsNone(one.get_stats())

    def test_pages_live_as_long_as_they_are_told_to(self):
        config = Config(self.address)
        config.extra_config["ttl"] = 100
        storage = made(config)
        self.addCleanup(storage.close)
        storage.register_mem_pool_host(self.filled(Pool(2)))
        storage.batch_set_v1(["a"], indices_of(0))
        for part in ("a", "a/1"):
            self.assertTrue(90 < self.client.ttl("hicache/some-model/tp0of2/" + part) <= 100)


class OverShm(EachWay, unittest.TestCase):
    def test_pages_are_read_while_the_server_is_stopped(self):
        storage = self.storage(self.filled(Pool(2)))
        storage.batch_set_v1(["a", "b"], indices_of(0, 1))
        with self.node.stopped_server():
            self.assertEqual(storage.batch_get_v1(["a", "b"], indices_of(2, 3)), [True, True])
            self.assertEqual(storage.batch_exists(["a", "b"]), 2)


class OverTcp(EachWay, unittest.TestCase):
    is_tcp = True


class Shape(unittest.TestCase):
    def test_each_method_has_the_signature_of_the_stand_in(self):
        one = importlib.import_module("refract.connectors.sglang").HiCache
        self.assertFalse(one.__abstractmethods__)
        for name, method in vars(HiCacheStorage).items():
            if inspect.isfunction(method):
                self.assertIn(name, vars(one))
                self.assertTrue(getattr(one, name).__doc__, name)
                shown = [(each.name, each.default) for each in inspect.signature(method).parameters.values()]
                ours = inspect.signature(getattr(one, name)).parameters.values()
                self.assertEqual([(each.name, each.default) for each in ours], shown, name)

    def test_it_is_an_object_where_sglang_is_not_there(self):
        done = run_python("""
            from refract.connectors.sglang import HiCache
            say(HiCache.__bases__)
            """)
        self.assertEqual((done.returncode, done.stdout), (0, "(<class 'object'>,)\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
