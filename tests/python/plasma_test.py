#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.plasma: each call of pyarrow.plasma, as its documentation has it. A program that used it changes
one import, which is the one below.

Usage: plasma_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import copy
import gc
import inspect
import os
import pickle
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, Programs, begin  # noqa: E402

begin()
import numpy  # noqa: E402
import refract  # noqa: E402
from refract import plasma  # noqa: E402


class Plasma(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["REFRACTD"] = Programs.refractd
        cls.store = plasma.start_plasma_store(64 * MIB)
        cls.name, cls.process = cls.store.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.store.__exit__(None, None, None)

    def setUp(self):
        self.client = plasma.connect(self.name)
        self.other = plasma.connect(self.name, num_retries=1)
        self.addCleanup(self.client.disconnect)
        self.addCleanup(self.other.disconnect)
        self.client.delete(self.client.list())
        # An answer of the server: it knows what this one holds from now on.
        self.other.store_capacity()

    def test_ids_have_20_bytes_and_are_keys_of_dictionaries(self):
        first = plasma.ObjectID(b"a" * 20)
        self.assertEqual(first, plasma.ObjectID(b"a" * 20))
        self.assertNotEqual(first, b"a" * 20)
        self.assertEqual({first: 1}[plasma.make_object_id(b"a" * 20)], 1)
        self.assertEqual((first.binary(), repr(first)), (b"a" * 20, "ObjectID(" + "61" * 20 + ")"))
        self.assertEqual(pickle.loads(pickle.dumps(first)), first)
        self.assertEqual(copy.deepcopy(first), first)
        self.assertEqual(len({plasma.ObjectID.from_random() for _ in range(100)}), 100)
        for wrong in (b"", b"a" * 19, b"a" * 21, "a" * 20, 5, None):
            with self.assertRaises(ValueError):
                plasma.ObjectID(wrong)

    def test_create_seal_and_get_buffers(self):
        object_id = plasma.ObjectID.from_random()
        buffer = self.client.create(object_id, 1000, metadata=b"about it")
        self.assertIsInstance(buffer, plasma.PlasmaBuffer)
        self.assertTrue(buffer.is_mutable)
        array = numpy.frombuffer(buffer, dtype="uint8")
        for i in range(1000):
            array[i] = i % 256
        self.assertFalse(self.client.contains(object_id))
        self.assertEqual(self.other.list()[object_id]["state"], "created")
        self.client.seal(object_id)
        [read] = self.other.get_buffers([object_id])
        self.assertIsInstance(read, plasma.PlasmaBuffer)
        self.assertEqual((read.size, len(read), read.is_mutable), (1000, 1000, False))
        self.assertEqual(numpy.frombuffer(read, dtype="uint8").tolist(), [i % 256 for i in range(1000)])
        self.assertEqual(read.to_pybytes(), bytes(memoryview(read)))
        self.assertEqual(self.other.get_metadata([object_id])[0].to_pybytes(), b"about it")
        self.assertEqual(self.other.get_buffers([object_id], with_meta=True)[0][0], b"about it")
        info = self.other.list()[object_id]
        self.assertEqual((info["data_size"], info["metadata_size"], info["state"]), (1000, 8, "sealed"))
        self.assertGreaterEqual(info["ref_count"], 1)

    def test_put_and_get_values(self):
        values = [1, "text", None, [1, (2.5, {"a": b"b"})], numpy.ones((100, 100)), numpy.array([])]
        ids = [self.client.put(value) for value in values]
        read = self.other.get(ids)
        self.assertEqual(read[:4], values[:4])
        numpy.testing.assert_array_equal(read[4], values[4])
        self.assertFalse(read[4].flags.writeable)
        self.assertEqual(self.other.get(ids[1]), "text")
        mine = plasma.ObjectID(b"m" * 20)
        self.assertEqual(self.client.put(5, object_id=mine, memcopy_threads=2), mine)
        self.assertEqual(self.other.get(mine, timeout_ms=0), 5)
        with self.assertRaises(plasma.PlasmaObjectExists):
            self.client.put(6, mine)

    def test_what_does_not_come_in_time_is_not_available(self):
        there, missing = self.client.put(1), plasma.ObjectID.from_random()
        self.assertEqual(self.client.get([there, missing], timeout_ms=10), [1, plasma.ObjectNotAvailable])
        self.assertIs(self.client.get(missing, timeout_ms=0), plasma.ObjectNotAvailable)
        self.assertIsNone(self.client.get_buffers([missing], 0)[0])
        self.assertEqual(self.client.get_buffers([missing], 0, with_meta=True), [(None, None)])
        self.assertEqual(self.client.get_metadata([missing], timeout_ms=0), [None])

    def test_get_waits_without_an_end_unless_told_otherwise(self):
        late = plasma.ObjectID.from_random()
        thread = threading.Thread(target=lambda: (time.sleep(0.2), self.other.put("late", late)))
        thread.start()
        self.assertEqual(self.client.get(late), "late")
        thread.join()

    def test_raw_buffers(self):
        array = numpy.arange(1000)
        first = self.client.put_raw_buffer(array, metadata=b"int64", memcopy_threads=1)
        second = plasma.ObjectID.from_random()
        self.assertEqual(self.client.put_raw_buffer(b"abc", second), second)
        one, two = self.other.get_buffers([first, second])
        self.assertEqual((numpy.frombuffer(one, dtype=int).sum(), two.to_pybytes()), (array.sum(), b"abc"))
        third = plasma.ObjectID.from_random()
        self.client.create_and_seal(third, b"data", b"meta")
        self.assertEqual(self.other.get_buffers([third], with_meta=True)[0][0], b"meta")
        with self.assertRaises(plasma.PlasmaObjectExists):
            self.client.create_and_seal(third, b"data")
        with self.assertRaises(refract.Malformed):
            self.other.get(third)

    def test_hashes_are_of_bytes_and_metadata(self):
        one, two = self.client.put_raw_buffer(b"a"), self.client.put_raw_buffer(b"a")
        other = self.client.put_raw_buffer(b"a", metadata=b"b")
        self.assertEqual((self.client.hash(one), len(self.client.hash(one))), (self.other.hash(two), 8))
        self.assertNotEqual(self.client.hash(one), self.client.hash(other))
        self.assertEqual(self.client.hash(plasma.ObjectID.from_random()), b"")

    def test_errors_have_plasma_s_names(self):
        object_id = plasma.ObjectID.from_random()
        self.client.create(object_id, 10)
        with self.assertRaises(plasma.PlasmaObjectExists):
            self.other.create(object_id, 10)
        with self.assertRaises(plasma.PlasmaObjectNonexistent):
            self.other.seal(object_id)
        self.client.abort(object_id)
        with self.assertRaises(plasma.PlasmaObjectNotFound):
            self.client.seal(object_id)
        self.client.create(object_id, 60 * MIB)
        with self.assertRaises(plasma.PlasmaStoreFull):
            self.other.create(plasma.ObjectID.from_random(), 60 * MIB)
        self.client.abort(object_id)
        for call in (self.client.get, self.client.contains, self.client.seal, self.client.hash,
                     lambda wrong: self.client.create(wrong, 1), lambda wrong: self.client.delete([wrong]),
                     lambda wrong: self.client.get_buffers([wrong])):
            with self.assertRaises(TypeError):
                call(b"a" * 20)

    def test_delete_is_of_what_is_there_and_buffers_stay(self):
        ids = [self.client.put(numpy.ones(100)) for _ in range(3)]
        array = self.other.get(ids[0])
        self.client.delete([*ids, plasma.ObjectID.from_random()])
        self.assertFalse(any(self.client.contains(each) for each in ids))
        self.assertEqual(array.sum(), 100)
        self.assertEqual(self.client.list(), {})

    def test_an_id_that_was_deleted_is_free_while_its_object_is_held(self):
        object_id = self.client.put(numpy.ones(100))
        array = self.other.get(object_id)
        self.client.delete([object_id])
        self.client.put(numpy.zeros(100), object_id)
        self.assertEqual((array.sum(), self.other.get(object_id).sum()), (100, 0))

    def test_a_delete_before_the_seal_is_of_nothing_and_a_second_seal_an_error(self):
        object_id = plasma.ObjectID.from_random()
        self.client.create(object_id, 10)
        self.other.delete([object_id])
        self.client.seal(object_id)
        self.assertTrue(self.other.contains(object_id))
        with self.assertRaises(refract.NotFound):
            self.client.seal(object_id)

    def test_evict_says_how_many_bytes_went(self):
        held = self.client.put_raw_buffer(bytes(1000))
        [buffer] = self.client.get_buffers([held])
        gone = self.client.put_raw_buffer(bytes(1000))
        self.assertEqual(self.client.evict(10_000), 1000)
        self.assertTrue(self.client.contains(held))
        self.assertFalse(self.client.contains(gone))
        self.assertEqual(buffer.to_pybytes(), bytes(1000))
        del buffer
        gc.collect()
        self.assertEqual(self.client.evict(1), 1000)

    def test_a_subscriber_is_told_of_seals_and_removals(self):
        self.client.subscribe()
        object_id = plasma.ObjectID.from_random()
        self.other.put_raw_buffer(b"abc", object_id, metadata=b"de")
        self.assertEqual(self.client.get_next_notification(), (object_id, 3, 2))
        self.other.delete([object_id])
        self.assertEqual(self.client.get_next_notification(), (object_id, -1, -1))
        with self.assertRaises(refract.InvalidArgument):
            self.other.get_next_notification()

    def test_what_the_store_is(self):
        self.assertEqual(self.client.store_capacity(), 64 * MIB)
        self.assertEqual(self.client.store_socket_name, self.name)
        self.assertIn("limit=", self.client.debug_string())
        self.client.set_client_options("a program", 1000)
        self.assertIsNone(self.process.poll())

    def test_what_is_not_there_says_what_to_do_instead(self):
        for call in (self.client.get_notification_socket, self.client.to_capsule,
                     lambda: self.client.decode_notifications(b""),
                     lambda: self.client.put(1, serialization_context=object()),
                     lambda: plasma.start_plasma_store(MIB, use_valgrind=True).__enter__()):
            with self.assertRaises(refract.Unsupported) as caught:
                call()
            self.assertEqual(len(str(caught.exception).splitlines()), 2)

    def test_disconnect_ends_what_was_being_made_and_no_buffer(self):
        client = plasma.connect(self.name)
        object_id, made = plasma.ObjectID.from_random(), client.put_raw_buffer(b"abc")
        view = memoryview(client.create(object_id, 10))
        [buffer] = client.get_buffers([made])
        client.disconnect()
        view[:] = b"0123456789"
        self.assertEqual(buffer.to_pybytes(), b"abc")
        self.assertNotIn(object_id, self.client.list())
        self.client.create(object_id, 10)
        self.client.abort(object_id)

    def test_connect_says_after_its_tries_that_there_is_no_store(self):
        with self.assertRaises(ConnectionError):
            plasma.connect("/nowhere/plasma.sock", num_retries=2)

    def test_names_and_defaults_are_those_of_pyarrow(self):
        wanted = {
            "create": "object_id, data_size, metadata=b''",
            "create_and_seal": "object_id, data, metadata=b''",
            "get_buffers": "object_ids, timeout_ms=-1, with_meta=False",
            "get_metadata": "object_ids, timeout_ms=-1",
            "put_raw_buffer": "value, object_id=None, metadata=b'', memcopy_threads=6",
            "put": "value, object_id=None, memcopy_threads=6, serialization_context=None",
            "get": "object_ids, timeout_ms=-1, serialization_context=None",
            "seal": "object_id", "contains": "object_id", "hash": "object_id", "evict": "num_bytes",
            "subscribe": "", "get_notification_socket": "", "decode_notifications": "buf",
            "get_next_notification": "", "to_capsule": "", "disconnect": "", "delete": "object_ids",
            "set_client_options": "client_name, limit_output_memory", "debug_string": "", "list": "",
            "store_capacity": "",
        }
        for name, arguments in wanted.items():
            parameters = inspect.signature(getattr(plasma.PlasmaClient, name)).parameters.values()
            bare = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
            self.assertEqual(", ".join(str(each) for each in bare[1:]), arguments, name)
        of_connect = list(inspect.signature(plasma.connect).parameters)
        self.assertEqual(of_connect, ["store_socket_name", "num_retries"])
        for name in ("ObjectID", "ObjectNotAvailable", "PlasmaBuffer", "PlasmaClient", "PlasmaObjectExists",
                     "PlasmaObjectNonexistent", "PlasmaStoreFull", "connect", "start_plasma_store"):
            self.assertTrue(hasattr(plasma, name), name)


if __name__ == "__main__":
    unittest.main()
