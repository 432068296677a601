#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.objects, each call, with sound and with bad input: on the node's host and over TCP.

Usage: objects_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import gc
import os
import resource
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, Programs, begin, node_of_objects, run_python, until  # noqa: E402

GIB = 1 << 30
begin()
import numpy  # noqa: E402
import refract  # noqa: E402
from refract import objects  # noqa: E402


class EachCall:
    """A node, and a client that reaches it in one way."""

    is_tcp = False

    @classmethod
    def setUpClass(cls):
        cls.node = node_of_objects("64MiB", "--listen-address", "127.0.0.1:0")
        cls.address = f"refract://{cls.node.tcp_address}?transport=tcp" if cls.is_tcp else cls.node.socket

    @classmethod
    def tearDownClass(cls):
        cls.node.__exit__()

    def setUp(self):
        self.client = objects.connect(self.address)
        self.addCleanup(self.client.close)
        for one in self.client.list():
            self.client.delete(one.id)

    def refused(self, error, says, call, *arguments, **options):
        with self.assertRaises(error) as caught:
            call(*arguments, **options)
        self.assertIn(says, str(caught.exception))
        return caught.exception

    def test_each_kind_of_buffer_goes_in_and_comes_out_as_it_was(self):
        table = numpy.arange(24, dtype="<f8").reshape(2, 3, 4)
        records = numpy.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
        times = numpy.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")
        whole = [b"", b"x", bytearray(b"abc"), memoryview(b"seen"), table, records, times,
                 numpy.zeros(0), numpy.bytes_(b"ab"), bytes(5 * MIB)]
        for number, data in enumerate(whole):
            with self.subTest(number=number):
                name = f"kind {number}"
                birth = self.client.put(name, data, metadata=b"about it")
                held = self.client.get(name)
                wanted = data.tobytes() if hasattr(data, "tobytes") else bytes(data)
                self.assertEqual(bytes(held), wanted)
                self.assertEqual(held.to_pybytes(), wanted)
                self.assertEqual((len(held), held.size, held.nbytes), (len(wanted),) * 3)
                self.assertEqual((held.id, held.birth, held.metadata), (name.encode(), birth, b"about it"))
                self.assertEqual(bytes(held.metadata_buffer()), b"about it")
                self.assertEqual(held.is_copy, self.is_tcp)
                self.assertFalse(held.is_mutable)
        read = numpy.frombuffer(self.client.get("kind 4"), dtype="<f8").reshape(2, 3, 4)
        self.assertTrue((read == table).all())

    def test_no_view_of_an_object_can_be_written(self):
        self.client.put("a", bytes(100))
        held = self.client.get("a")
        array = numpy.frombuffer(held, dtype="u1")
        self.assertFalse(array.flags.writeable)
        with self.assertRaises(ValueError):
            array.setflags(write=True)
        with self.assertRaises(ValueError):
            array[0] = 1
        with self.assertRaises(TypeError):
            memoryview(held)[0] = 1
        with self.assertRaises((TypeError, BufferError)):
            (numpy.ctypeslib.ctypes.c_char * 100).from_buffer(held)
        self.refused(BufferError, ".copy()", held.__dlpack__)
        self.assertTrue(memoryview(held).readonly)

    def test_a_new_object_is_filled_in_place_and_sealed(self):
        new = self.client.create("a", 1000, metadata=b"beside")
        array = numpy.frombuffer(new, dtype="u1")
        self.assertTrue(array.flags.writeable and new.is_mutable)
        array[:] = 7
        new.filled(500)
        self.assertFalse(self.client.contains("a"))
        self.refused(refract.Exists, "one is being made", self.client.create, "a", 1)
        self.assertEqual(new.to_pybytes(), b"\7" * 1000)
        held = new.seal()
        self.assertEqual((bytes(held), held.metadata, held.birth), (b"\7" * 1000, b"beside", new.birth))
        self.assertFalse(new.is_mutable)
        self.refused(refract.InvalidArgument, "sealed before", new.seal)
        self.refused(refract.InvalidArgument, "sealed before", new.abort)
        self.refused(refract.InvalidArgument, "sealed before", new.filled, 1)
        with self.assertRaises(refract.InvalidArgument):
            memoryview(new)

    def test_what_views_write_after_the_seal_changes_no_object(self):
        """Their memory would serve the next object otherwise."""
        new = self.client.create("a", MIB)
        late = numpy.frombuffer(new, dtype="u1")
        late[:] = 1
        new.seal()
        del new
        for number in range(8):
            with self.client.create(f"next {number}", MIB) as other:
                numpy.frombuffer(other, dtype="u1")[:] = 2
                late[:] = 3
        gc.collect()
        self.assertEqual(bytes(self.client.get("a")), b"\1" * MIB)
        for number in range(8):
            self.assertEqual(bytes(self.client.get(f"next {number}")), b"\2" * MIB)
        aborted = self.client.create("b", MIB)
        later = numpy.frombuffer(aborted, dtype="u1")
        aborted.abort()
        del aborted
        later[:] = 9
        self.assertTrue((later == 9).all())

    def test_an_array_that_takes_no_view_writes_to_no_other_object_either(self):
        """numpy.ndarray(buffer=...) refers to what it is given, and ends its view."""
        for turn, wrap in enumerate((lambda new: new, memoryview)):
            for how in ("seal", "abort"):
                new = self.client.create(f"{how} {turn}", MIB)
                late = numpy.ndarray(MIB, "u1", buffer=wrap(new))
                late[:] = 1
                getattr(new, how)()
                del new
                gc.collect()
                for number in range(4):
                    with self.client.create(f"{how} {turn} {number}", MIB) as other:
                        numpy.frombuffer(other, dtype="u1")[:] = 2
                        late[:] = 3
                for number in range(4):
                    self.assertEqual(bytes(self.client.get(f"{how} {turn} {number}")), b"\2" * MIB)
            self.assertEqual(bytes(self.client.get(f"seal {turn}")), b"\1" * MIB)

    def test_what_is_seen_of_an_object_that_goes_unsealed_stays(self):
        view = memoryview(self.client.create("a", MIB))
        gc.collect()
        self.assertFalse(self.client.contains("a"))
        with self.client.create("b", MIB) as other:
            numpy.frombuffer(other, dtype="u1")[:] = 2
            view[:] = b"\3" * MIB
        self.assertEqual((bytes(self.client.get("b")), bytes(view)), (b"\2" * MIB, b"\3" * MIB))

    def test_an_aborted_object_gives_its_room_back(self):
        new = self.client.create("a", 40 * MIB)
        new.abort()
        self.refused(refract.InvalidArgument, "aborted before", new.seal)
        self.client.create("a", 40 * MIB).abort()
        with self.assertRaises(ZeroDivisionError), self.client.create("a", 40 * MIB):
            raise ZeroDivisionError
        new = self.client.create("a", 40 * MIB)
        del new  # Without a seal it goes.
        with self.client.create("a", 8) as new:
            memoryview(new)[:] = b"sealed!!"
        self.assertEqual(bytes(self.client.get("a")), b"sealed!!")
        self.assertEqual(self.client.stat().creations, 0)

    def test_many_are_put_and_got_each_with_its_own_outcome(self):
        self.client.put("there", b"before")
        items = [("a", b"1"), ("there", b"2"), (b"b", numpy.arange(4), b"meta"), ["c", bytearray(3 * MIB)]]
        births = self.client.put_many(items)
        self.assertIsInstance(births[1], refract.Exists)
        self.assertIsInstance(births[0], int)
        a, missing, b, c = self.client.get_many(["a", "nothing", "b", "c"])
        self.assertIsNone(missing)
        self.assertEqual((bytes(a), b.metadata, len(c), a.birth), (b"1", b"meta", 3 * MIB, births[0]))
        self.assertEqual(self.client.put_many([]), [])
        self.assertEqual(self.client.get_many([]), [])
        self.assertEqual(self.client.get_many(("a" for _ in range(3)))[2].id, b"a")
        self.assertEqual(self.client.prefetch(["a", "b"]), [None, None])
        self.assertIsInstance(self.client.prefetch(["nothing"])[0], refract.NotFound)

    def test_ids_are_text_or_bytes_and_new_ones_are_unlike_all_others(self):
        for name in ("ä", b"\0\xff", bytearray(b"ba"), "x" * 255):
            self.client.put(name, b"1")
            self.assertIn(name, self.client)
            self.client.delete(name)
            self.assertNotIn(name, self.client)
        made = {self.client.new_id() for _ in range(100)}
        self.assertEqual((len(made), {len(each) for each in made}), (100, {20}))

    def test_what_is_listed_kept_evicted_and_deleted(self):
        self.client.put("a", b"12345", metadata=b"678")
        self.client.put("b", b"12345")
        self.client.keep("a")
        new = self.client.create("c", 10)
        held = self.client.get("b")
        listed = {one.id: one for one in self.client.list(all=True)}
        self.assertEqual(sorted(listed), [b"a", b"b", b"c"])
        self.assertEqual((listed[b"a"].size, listed[b"a"].metadata_size, listed[b"a"].is_kept), (5, 3, True))
        self.assertEqual((listed[b"b"].is_sealed, listed[b"c"].is_sealed), (True, False))
        self.assertEqual(sorted(one.id for one in self.client.list()), [b"a", b"b"])
        new.abort()
        if not self.is_tcp:
            self.assertEqual(listed[b"b"].holders, 1)
            self.assertEqual(self.client.evict(1 << 40), 0)
        self.client.keep("a", False)
        self.assertGreaterEqual(self.client.evict(1), 5)
        self.client.put("d", b"x")
        self.refused(refract.VersionMismatch, "another birth", self.client.delete, "d", birth=1)
        self.assertEqual(self.client.delete("d"), 0)
        self.assertEqual(self.client.missed(), [])
        self.refused(refract.NotFound, "no such object", self.client.delete, "d")
        self.refused(refract.NotFound, "no such object", self.client.keep, "d")
        self.assertEqual(bytes(held), b"12345")

    def test_stat_counts_what_is_held_and_views_hold_it(self):
        self.client.put("a", bytes(MIB))
        stat = self.client.stat()
        self.assertEqual((stat.limit, stat.objects, stat.sealed_bytes), (64 * MIB, 1, MIB))
        held = self.client.get("a")
        array = numpy.frombuffer(held, dtype="u1")[10:]
        del held
        gc.collect()
        if self.is_tcp:
            return
        until(lambda: self.client.stat().held_bytes == MIB)
        self.assertEqual(self.client.delete("a"), 1)
        self.assertEqual(self.client.stat().removed_bytes, MIB)
        self.assertEqual(array.sum(), 0)
        del array
        until(lambda: self.client.stat().used == 0)

    def test_release_lets_go_with_the_last_view(self):
        self.client.put("a", b"12345")
        with self.client.get("a") as held:
            view, other = memoryview(held), memoryview(held)
        other.release()
        self.assertEqual(bytes(view), b"12345")
        self.refused(refract.InvalidArgument, "was released", bytes, held)
        self.refused(refract.InvalidArgument, "was released", held.digest)
        if not self.is_tcp:
            until(lambda: self.client.stat().held == 1)
        view.release()
        until(lambda: self.client.stat().held == 0)

    def test_an_array_that_takes_no_view_holds_the_object_all_the_same(self):
        """numpy.ndarray(buffer=...) refers to what it is given, and ends its view."""
        for wrap in (lambda held: held, memoryview):
            self.client.put("a", bytes(MIB))
            with self.client.get("a") as held:
                array = numpy.ndarray(MIB, "u1", buffer=wrap(held))
            del held
            gc.collect()
            self.client.delete("a")
            if not self.is_tcp:
                self.assertEqual(self.client.stat().removed_bytes, MIB)
            self.assertEqual(array.sum(), 0)
            del array
            until(lambda: self.client.stat().used == 0)

    def test_digests_are_of_bytes_and_metadata(self):
        self.client.put("a", b"12345")
        self.client.put("b", b"12345")
        self.client.put("c", b"12345", metadata=b"6")
        self.assertEqual(self.client.digest("a"), self.client.get("b").digest())
        self.assertNotEqual(self.client.digest("a"), self.client.digest("c"))
        said = subprocess.run([Programs.refract, "--socket", self.node.socket, "object", "digest", "a"],
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.split()[0], self.client.digest("a").hex())

    def test_a_subscription_tells_what_is_there_and_what_happens(self):
        self.client.put("a", b"1")
        subscription = self.client.subscribe()
        begun = subscription.next(timeout=10)
        self.assertEqual((begun.kind, begun.id), ("there", b"a"))
        self.client.put("b", b"22", metadata=b"3")
        self.client.delete("a")
        made, gone = subscription.next(timeout=10), next(iter(subscription))
        self.assertEqual((made.kind, made.id, made.size, made.metadata_size), ("sealed", b"b", 2, 1))
        self.assertEqual((gone.kind, gone.id, gone.birth), ("removed", b"a", begun.birth))
        self.assertIsNone(subscription.next(timeout=0.01))
        self.assertIsNone(subscription.next(0))

    def test_a_full_store_names_what_takes_its_room(self):
        held = self.client.create("a", 40 * MIB)
        error = self.refused(refract.NoSpace, "are of objects that are being made", self.client.create, "b",
                             30 * MIB, room_timeout=0.05)
        self.assertEqual((error.code, error.retry), ("no_space", "later"))
        self.refused(refract.NoSpace, "room", self.client.put, "b", bytes(30 * MIB), room_timeout=0)
        self.refused(refract.NoSpace, "room", self.client.put_value, "b", numpy.zeros(30 * MIB, "u1"),
                     room_timeout=0)
        self.assertIsInstance(self.client.put_many([("b", bytes(30 * MIB))])[0], refract.NoSpace)
        held.abort()
        self.client.put("b", bytes(30 * MIB))

    def test_bad_input_is_refused_in_words_by_each_call(self):
        client, wrong, bad = self.client, TypeError, refract.InvalidArgument
        client.put("there", b"1")
        calls = [client.get, client.get_value, client.contains, client.delete, client.keep, client.where,
                 client.digest, lambda id: client.put(id, b"1"), lambda id: client.put_value(id, 1),
                 lambda id: client.set_copies(id, 1),
                 lambda id: client.create(id, 1), lambda id: client.get_many([id]),
                 lambda id: client.prefetch([id]), lambda id: client.put_many([(id, b"")])]
        for number, call in enumerate(calls):
            with self.subTest(number=number):
                self.refused(wrong, "str or bytes, not 'int'", call, 5)
                self.refused(wrong, "str or bytes, not 'NoneType'", call, None)
                self.refused(bad, "this one has 0", call, "")
                self.refused(bad, "this one has 256", call, b"x" * 256)
                self.refused(bad, "UTF-8", call, "\ud800")
        waits = [lambda s: client.get("there", s), lambda s: client.get_value("there", s),
                 lambda s: client.get_many(["there"], s), lambda s: client.prefetch(["there"], s),
                 lambda s: client.subscribe().next(s), lambda s: client.create("new", 1, room_timeout=s),
                 lambda s: client.put("new", b"", room_timeout=s)]
        for number, wait in enumerate(waits):
            with self.subTest(wait=number):
                for seconds in (-1, -0.001, float("nan"), float("-inf")):
                    self.refused(bad, "0 seconds or more", wait, seconds)
                self.refused(wrong, "a number of seconds or None, not 'str'", wait, "1")
        for data in (5, None, "text", [1], object()):
            self.refused(wrong, "an object with a buffer", client.put, "new", data)
            self.refused(wrong, "an object with a buffer", client.put_many, [("new", data)])
            if data is not None:
                self.refused(wrong, "metadata is", client.create, "new", 1, metadata=data)
        for data in (numpy.arange(10)[::2], numpy.ones((2, 3), order="F"), memoryview(b"abc")[::-1]):
            self.refused(bad, "not contiguous", client.put, "new", data)
        self.refused(bad, "references to Python objects", client.put, "new", numpy.array([None]))
        self.refused(bad, "65,536", client.put, "new", b"", metadata=bytes(65537))
        for size in (-1, 1 << 63, -(1 << 70)):
            self.refused(bad, "size is 0 to", client.create, "new", size)
            self.refused(bad, "size is 0 to", client.evict, size)
        self.refused(bad, "at most 16", client.set_copies, "there", 17)
        self.refused(bad, "copies is 0 to", client.set_copies, "there", -1)
        self.refused(refract.Unsupported, "shares its objects with no other", client.set_copies, "there", 2)
        for size in (1.5, "1", None):
            self.refused(wrong, "size is a whole number", client.create, "new", size)
        self.refused(bad, "birth is 0 to", client.delete, "there", birth=-1)
        self.refused(refract.TooLarge, "larger than all objects", client.create, "new", 65 * MIB)
        self.refused(wrong, "not one id", client.get_many, "there")
        self.refused(wrong, "not one id", client.prefetch, b"there")
        self.refused(wrong, "tuples", client.put_many, ["ab"])
        self.refused(wrong, "tuples", client.put_many, [("a",)])
        self.refused(wrong, "iterable", client.put_many, 5)
        with client.create("new", 10) as new:
            self.refused(bad, "", new.filled, 11)
            self.refused(bad, "bytes is 0 to", new.filled, -1)
        self.refused(TypeError, "", objects.Client)
        self.refused(TypeError, "", objects.Object)

    def test_a_closed_client_says_so_and_what_it_gave_stays(self):
        self.client.put("a", b"12345")
        held = self.client.get("a")
        new = self.client.create("b", 10)
        view = memoryview(new)
        subscription = self.client.subscribe()
        with self.client:
            self.assertFalse(self.client.is_closed)
        self.assertTrue(self.client.is_closed)
        self.client.close()
        self.refused(refract.InvalidArgument, "closed", self.client.get, "a")
        self.refused(refract.InvalidArgument, "closed", self.client.stat)
        self.refused(refract.InvalidArgument, "closed", new.seal)
        self.refused(refract.InvalidArgument, "closed", subscription.next)
        view[:] = b"0123456789"
        self.assertEqual(bytes(held), b"12345")
        self.assertIn("closed", repr(self.client))

    def test_the_same_values_come_back(self):
        array = numpy.arange(100_000, dtype="f4").reshape(100, 1000)
        value = {"array": array, "columns": numpy.asfortranarray(array), "text": "ä", "none": None,
                 "nothing": numpy.zeros((0, 3)), "records": numpy.zeros(5, dtype=[("a", "i2"), ("b", "S3")]),
                 "objects": numpy.array([1, "two"], dtype=object), "scalar": numpy.float64(2.5),
                 "slice": array[:, ::2]}
        self.client.put_value("v", value, metadata=b"m")
        read = self.client.get_value("v")
        for name, wanted in value.items():
            with self.subTest(name=name):
                numpy.testing.assert_array_equal(read[name], wanted)
        self.assertFalse(read["array"].flags.writeable)
        self.assertTrue(read["columns"].flags.f_contiguous)
        self.assertEqual(read["array"].ctypes.data % 64, 0)
        self.assertEqual(self.client.get("v").metadata, b"m")
        for small in (None, 5, "text", [1, (2, 3)], b""):
            self.client.delete("v")
            self.client.put_value("v", small)
            self.assertEqual(self.client.get_value("v"), small)
        with self.assertRaises(Exception) as caught:
            self.client.put_value("w", lambda: None)
        self.assertIn("pickle", str(caught.exception))
        self.client.put("raw", b"12345")
        self.refused(refract.Malformed, "get() has its bytes", self.client.get_value, "raw")


class OverSharedMemory(EachCall, unittest.TestCase):
    is_tcp = False

    def test_a_value_s_arrays_lie_in_the_store_and_hold_it(self):
        self.client.put_value("v", [numpy.ones(MIB, "u1"), numpy.ones(MIB, "u1")])
        first, second = self.client.get_value("v")
        del first
        gc.collect()
        until(lambda: self.client.stat().held_bytes > 2 * MIB)
        self.client.delete("v")
        self.assertEqual(second.sum(), MIB)
        del second
        gc.collect()
        until(lambda: self.client.stat().used == 0)

    def test_a_size_beyond_the_limit_takes_no_memory_here(self):
        """A limit on files stands for the memory of the host, which a test must not use up."""
        ended = run_python("""
            client = objects.connect(sys.argv[1])
            try:
                client.create("large", 1 << 40)
            except refract.TooLarge:
                say("refused")
            """, self.address, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (GIB, GIB)))
        self.assertEqual((ended.returncode, ended.stdout), (0, "refused\n"), ended.stderr)


class OverTcp(EachCall, unittest.TestCase):
    is_tcp = True


class Connecting(unittest.TestCase):
    def test_says_what_is_not_there(self):
        with self.assertRaises(refract.Unavailable) as caught:
            objects.connect("/nowhere/node.sock")
        self.assertIsInstance(caught.exception, ConnectionError)
        self.assertIn("/nowhere/node.sock", str(caught.exception))
        with node_of_objects("0B") as node, self.assertRaises(refract.Unsupported) as caught:
            objects.connect(node.socket)
        self.assertIn("--objects-limit", str(caught.exception))

    def test_refuses_bad_arguments(self):
        for address in (5, b"path", None, ["x"]):
            with self.assertRaises(TypeError):
                objects.connect(address)
        for options in ({"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"timeout": 1e9}):
            with self.assertRaises(refract.InvalidArgument):
                objects.connect("x", **options)
        with self.assertRaises(refract.InvalidArgument):
            objects.connect("refract://?")
        with self.assertRaises(refract.InvalidArgument):
            objects.connect("a\0b")


if __name__ == "__main__":
    unittest.main()
