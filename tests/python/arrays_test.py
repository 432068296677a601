#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values that are looked at where they lie, arrays, what is built in place, and copies into the program's own
memory: on the node's host and over TCP, with sound and with bad input. Some 10 s.

Usage: arrays_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import array
import ctypes
import gc
import io
import mmap
import os
import pickle
import sys
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, EmptyNode, begin, needs  # noqa: E402

begin()
needs("hypothesis")
import hypothesis  # noqa: E402
import numpy  # noqa: E402
import refract  # noqa: E402
from hypothesis import strategies  # noqa: E402

PINS = 255  # Of a thread.
LENGTHS = (0, 1, 64, 65, 4_095, 4_096, 70_000, 4 * MIB + 1)


def address_of(a):
    return a.__array_interface__["data"][0]


def saved(a):
    file = io.BytesIO()
    numpy.save(file, a)
    return file.getvalue()


def plain(a):
    """Its items without what pads them, as one text."""
    return repr(a.tolist()) if a.dtype.names else a.tobytes()


def arrays():
    """One of each kind that numpy can save without pickle."""
    fields = numpy.dtype([("a", "<i4"), ("b", ">f8", (2, 3)), ("c", [("d", "S5"), ("e", "U2")])])
    padded = numpy.dtype({"names": ["x", "y"], "formats": ["u1", "<f8"], "offsets": [0, 8], "itemsize": 24})
    yield numpy.arange(24, dtype="<f8").reshape(2, 3, 4)
    yield numpy.asfortranarray(numpy.arange(6_000.0).reshape(20, 300))
    yield numpy.arange(10_000, dtype=">u2")
    yield numpy.array(5.5)
    yield numpy.zeros((3, 0, 7), "c16")
    yield numpy.array([True, False])
    yield numpy.array(["a", "\u9375"])
    yield numpy.array([b"abc", b""])
    yield numpy.array(["2020-01-01", "NaT"], "M8[D]")
    yield numpy.array([1, 2], "m8[25us]")
    yield numpy.frombuffer(bytes(range(60)), "V20")
    yield numpy.zeros(300, fields)
    yield numpy.ones(300, padded)
    yield numpy.arange(5_000, dtype="e").reshape(50, 100)[::2, ::3]  # Contiguous in no order.
    yield numpy.zeros((1,) * 32, "u1")
    yield numpy.zeros(MIB, "f4")[7:]


class Tensor:
    """What torch's tensors have of their place; torch is not in the tests."""

    def __init__(self, memory, device="cpu", contiguous=True):
        self.memory, self.contiguous = memory, contiguous
        self.device = type("device", (), {"type": device, "__str__": lambda self: self.type})()

    def data_ptr(self):
        return address_of(self.memory)

    def numel(self):
        return self.memory.size

    def element_size(self):
        return self.memory.itemsize

    def is_contiguous(self):
        return self.contiguous


class EachWay(EmptyNode):
    memory_limit = "512MiB"

    def pinned(self, bytes_):
        return not self.is_tcp and bytes_ > 64

    def overwrite(self, length=100_000):
        """Takes what memory of about that length is free, and so what nothing holds any more."""
        for _ in range(2):
            self.client.put_many({f"other {i}": bytes([i + 1]) * length for i in range(50)})

    # Views.

    def test_a_view_is_the_value_of_its_moment_for_all_that_looks_at_it(self):
        for length in LENGTHS:
            with self.subTest(length=length):
                value = os.urandom(length)
                version = self.client.put("a", value)
                view = self.client.view("a")
                self.assertIsInstance(view, refract.Buffer)
                self.client.put("a", bytes(length))
                self.client.erase("a")
                self.overwrite(min(length, 200_000))
                self.assertTrue(bytes(view) == value)
                self.assertEqual((len(view), view.nbytes, view.version), (length, length, version))
                self.assertEqual(view.is_copy, not self.pinned(length))
                self.assertTrue(memoryview(view).readonly)
                if length > 1:
                    part = memoryview(view)[length // 2:]
                    items = numpy.frombuffer(view, "u1", offset=1)
                    del view
                    gc.collect()
                    self.assertTrue(part == value[length // 2:] and items.tobytes() == value[1:])

    def test_a_view_outlives_its_client_and_is_let_go_of_with_its_last_slice(self):
        value = os.urandom(100_000)
        client = refract.connect(self.address)
        client.put("a", value)
        with client.view("a") as view:
            first, second = memoryview(view)[:10], memoryview(view)[10:]
        # Behind the block there is no new one, and those that are there stay.
        self.refused(refract.InvalidArgument, "released", bytes, view)
        self.refused(refract.InvalidArgument, "released", view.to_pybytes)
        client.close()
        del client
        self.client.erase("a")
        self.overwrite()
        self.assertEqual(first, value[:10])
        first.release()
        self.overwrite()
        self.assertTrue(second == value[10:], "a pin that went with the first of two slices")

    def test_an_array_that_takes_no_view_holds_the_value_all_the_same(self):
        """numpy.ndarray(buffer=...) refers to what it is given, and ends its view."""
        value = os.urandom(100_000)
        for wrap in (lambda view: view, memoryview):
            self.client.put("a", value)
            with self.client.view("a") as view:
                items = numpy.ndarray(100_000, "u1", buffer=wrap(view))
            del view
            gc.collect()
            self.client.erase("a")
            self.overwrite()
            self.assertTrue(items.tobytes() == value)
            self.assertRaises(ValueError, items.setflags, write=True)

    def test_a_view_of_nothing_and_of_no_key(self):
        self.refused(KeyError, "view of 'none': no entry has this key", self.client.view, "none")
        self.refused(KeyError, "array of 'none'", self.client.array, "none")
        self.assertEqual((self.client.view("none", None), self.client.array("none", 5)), (None, 5))
        for call, more in ((self.client.view, ()), (self.client.array, ()), (self.client.put_array, (5,)),
                           (self.client.get_into, (bytearray(),)), (self.client.build, (5,))):
            for key in (5, None, bytearray(b"a")):
                self.refused(TypeError, "a key is str or bytes", call, key, *more)
            self.refused(ValueError, "no UTF-8 form", call, "\ud800", *more)
        self.refused(refract.InvalidArgument, "this one has none", self.client.view, "")
        self.refused(refract.TooLarge, "65,535", self.client.array, "x" * 65_536)

    def test_more_views_than_pins_are_copies(self):
        value = os.urandom(5_000)
        self.client.put("a", value)
        self.client.put_array("b", numpy.arange(1_000))
        views = [self.client.view("a") for _ in range(PINS + 20)]
        copies = sum(view.is_copy for view in views)
        self.assertEqual(copies, PINS + 20 if self.is_tcp else 20)
        made = [self.client.array("b") for _ in range(5)]
        self.assertTrue(all(one.base.is_copy and (one == numpy.arange(1_000)).all() for one in made))
        # What needs a pin for a moment does without it.
        room = bytearray(5_000)
        self.assertEqual((self.client.get("a"), self.client.get_into("a", room)), (value, 5_000))
        self.assertEqual((room, self.client.get_many(["a"])), (value, [value]))
        self.client.put("a", bytes(5_000))
        self.assertTrue(all(bytes(view) == value for view in views))
        del views, made
        gc.collect()
        self.assertEqual(self.client.view("a").is_copy, self.is_tcp, "pins that did not come back")

    def test_a_hundred_thousand_views_at_once(self):
        self.client.put("a", b"x" * 65)
        number = 100_000 if not self.is_tcp else 1_000  # A message each.
        views = [self.client.view("a") for _ in range(number)]
        self.assertEqual(sum(map(len, views)), 65 * number)
        views = views[::2]  # In some order.
        views.reverse()
        del views
        self.assertEqual(self.client.view("a").is_copy, self.is_tcp)

    def test_nothing_of_it_can_be_written(self):
        self.client.put("a", bytes(100_000))
        self.client.put_array("b", numpy.zeros((100, 100)))
        self.client.put_array("small", numpy.zeros(3))
        view, b, small = self.client.view("a"), self.client.array("b"), self.client.array("small")
        for items in (numpy.frombuffer(view, "u1"), numpy.asarray(memoryview(view)), b, b[3:, ::2], b.T,
                      numpy.lib.stride_tricks.as_strided(b, (5, 5)), numpy.asarray(b.base), small):
            self.assertFalse(items.flags.writeable)
            with self.assertRaises(ValueError):
                items[...] = 1
            self.assertRaises(ValueError, items.setflags, write=True)
        for buffer in (view, b.base, memoryview(view)):
            self.assertRaises((BufferError, TypeError), (ctypes.c_char * 10).from_buffer, buffer)
            self.refused(refract.InvalidArgument, "read-only", self.client.get_into, "a", buffer)
        for one in (view, b):
            self.assertRaises((BufferError, RuntimeError), numpy.from_dlpack, one)
        self.refused(BufferError, ".copy()", view.__dlpack__)
        self.assertEqual(view.__dlpack_device__(), (1, 0))
        self.assertEqual(bytes(view), bytes(100_000))
        self.assertTrue((b.copy() + 1 == 1).all())

    # Arrays.

    def test_each_kind_of_array_goes_in_and_comes_out_as_it_was(self):
        for number, a in enumerate(arrays()):
            with self.subTest(number=number, type=a.dtype):
                version = self.client.put_array("a", a, ttl=30)
                back = self.client.array("a")
                self.assertIs(type(back), numpy.ndarray)
                self.assertEqual((back.dtype, back.shape), (a.dtype, a.shape))
                self.assertEqual(back.tobytes(), a.tobytes())
                self.assertFalse(back.flags.writeable)
                value = self.client.get("a")
                self.assertEqual(self.client.get_versioned("a").version, version)
                # In numpy's own form, both ways.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.assertEqual(plain(numpy.load(io.BytesIO(value))), plain(a))
                    self.client.put("saved", saved(a))
                again = self.client.array("saved")
                # What pads is not saved.
                self.assertEqual((again.dtype, again.shape, plain(again)), (a.dtype, a.shape, plain(a)))
                if a.flags.f_contiguous and not a.flags.c_contiguous:
                    self.assertTrue(back.flags.f_contiguous and not back.flags.c_contiguous)
                is_large = len(value) >= 4_096
                self.assertEqual(back.base.is_copy, not (is_large and not self.is_tcp))
                if a.size > 0 and not (is_large and self.is_tcp):
                    self.assertEqual(address_of(back) % 64, 0)

    def test_an_array_is_of_its_moment_and_holds_it(self):
        a = numpy.arange(100_000)
        self.client.put_array("a", a)
        back = self.client.array("a")
        part = back[10:20]
        del back
        gc.collect()
        self.client.erase("a")
        self.overwrite(800_000)
        self.assertEqual(part.tolist(), list(range(10, 20)))

    def test_conditions_of_arrays_and_builds_hold(self):
        version = self.client.put_array("a", [1, 2, 3], if_absent=True)
        self.refused(refract.Exists, "put_array of 'a'", self.client.put_array, "a", [1], if_absent=True)
        self.refused(refract.VersionMismatch, "", self.client.put_array, "a", [1], if_version=version + 1)
        self.client.put_array("a", numpy.zeros(20_000), if_version=version)
        with self.assertRaises(refract.Exists):
            with self.client.build("a", 10, if_absent=True) as a:
                a[...] = 1
        with self.client.build("b", 10, if_absent=True, ttl=30) as b:
            b[...] = 1
        self.assertTrue(29 < self.client.ttl("b") <= 30)
        self.assertEqual(self.client.array("a").shape, (20_000,))

    def test_arrays_that_cannot_be_are_refused(self):
        put = self.client.put_array
        for a in (numpy.array([None]), numpy.zeros(2, [("a", "O")]), [object()]):
            self.refused(refract.InvalidArgument, "references to Python objects", put, "a", a)
            self.refused(refract.InvalidArgument, "references to Python objects", self.client.build, "a", 2,
                         numpy.asarray(a).dtype)
        self.refused(refract.InvalidArgument, "no bytes", put, "a", numpy.zeros(2, []))
        self.refused(TypeError, "misses its argument array", put, "a")
        self.assertRaises(ValueError, put, "a", [[1], [2, 3]])
        self.refused(refract.TooLarge, "512 MiB", put, "a",
                     numpy.frombuffer(mmap.mmap(-1, 512 * MIB), "u1"))
        self.assertFalse(self.client.exists("a"))

    def test_values_that_are_no_arrays_say_so(self):
        good = saved(numpy.arange(1_000))
        text = good[10:128].decode()
        lies = [b"", b"x", bytes(10_000), good[:-1], good + b"x", b"\x93NUMPY\x01\x00\xff\xff" + good[10:],
                pickle.dumps(numpy.arange(3)), saved(numpy.zeros(3))[:64]]
        for old, new in (("(1000,)", "(1001,)"), ("(1000,)", "(999,) "), ("(1000,)", "(-10,)"),
                         ("<i8", "|O8"), ("<i8", "<f3"), ("(1000,)", "(9999999999999999999,)"),
                         ("'<i8'", "f('x')"), ("False", "0    "), ("'shape'", "'sharp'"), ("<i8", "a,b")):
            changed = text.replace(old, new)[:118].ljust(117)[:117] + "\n"
            lies.append(good[:10] + changed.encode() + good[128:])
        # More dimensions than numpy has, and a field that is there twice.
        for header in ("{'descr': '|u1', 'fortran_order': False, 'shape': (" + "1, " * 60 + ")}",
                       "{'descr': [('a', '|u1'), ('a', '|u1')], 'fortran_order': False, 'shape': ()}"):
            lies.append(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"x")
            lies.append(lies[-1] + b"x")
        for lie in lies:
            self.client.put("a", lie)
            error = self.refused(refract.Malformed, "the value is no array", self.client.array, "a")
            self.assertIsInstance(error, ValueError)
            self.assertEqual(self.client.get("a"), lie)
        self.assertEqual(self.client.view("a").is_copy, self.is_tcp or len(lies[-1]) <= 64)

    # Building.

    def test_what_is_built_is_put_at_the_end_of_its_block(self):
        build = self.client.build("a", (300, 200), "<f4")
        with build as a:
            self.assertTrue(a.flags.writeable and a.flags.c_contiguous)
            self.assertEqual((a.shape, a.dtype, address_of(a) % 64), ((300, 200), numpy.dtype("<f4"), 0))
            a[...] = numpy.arange(60_000).reshape(300, 200)
            self.assertFalse(self.client.exists("a"))
            self.assertIsNone(build.version)
        self.assertEqual(self.client.get_versioned("a").version, build.version)
        self.assertEqual(self.client.array("a").tolist(), a.tolist())
        with self.client.build(b"b", 3, [("x", "i4"), ("y", "U2")], order="F") as b:
            b["x"], b["y"] = 7, "z"
        self.assertEqual(self.client.array("b").tolist(), [(7, "z")] * 3)
        with self.client.build("empty", (0, 5)) as empty:
            self.assertEqual(empty.shape, (0, 5))
        self.assertEqual(self.client.array("empty").shape, (0, 5))

    def test_an_exception_puts_nothing(self):
        for error in (ZeroDivisionError, KeyboardInterrupt):
            build = self.client.build("a", 1_000)
            with self.assertRaises(error):
                with build as a:
                    a[...] = 1
                    raise error
            self.assertFalse(self.client.exists("a"))
            self.assertIsNone(build.version)
            self.refused(refract.InvalidArgument, "one `with` block", build.__enter__)

    def test_an_array_that_is_kept_beyond_its_block_is_in_no_other_value(self):
        kept = []
        for number in range(10):
            with self.client.build(f"a{number}", 50_000, "u1") as a:
                for one in kept:
                    one[...] = 99
                a[...] = number
            kept.append(a)
        for number in range(10):
            self.assertTrue((self.client.array(f"a{number}") == number).all(), number)

    def test_an_array_over_a_reservation_that_takes_no_view_is_in_no_other_value(self):
        for wrap in (lambda r: r, memoryview):
            with self.client.reserve(100_000) as r:
                late = numpy.ndarray(100_000, "u1", buffer=wrap(r))
            del r
            for number in range(4):
                with self.client.build(f"a{number}", 100_000 - 128, "u1") as a:
                    a[...] = number
                    late[:] = 99
            for number in range(4):
                self.assertTrue((self.client.array(f"a{number}") == number).all(), number)

    def test_a_reservation_is_a_value_that_is_put_as_often_as_one_likes(self):
        with self.client.reserve(100_000) as r:
            self.assertEqual((len(r), r.size, r.nbytes), (100_000, 100_000, 100_000))
            for number in range(3):
                memoryview(r)[:] = bytes([number]) * 100_000
                self.client.put("a", r)
                self.assertEqual(self.client.get("a"), bytes([number]) * 100_000)
            items = numpy.frombuffer(r, "u1")
            r.resize(5)
            self.client.put("a", r, if_version=self.client.get_versioned("a").version)
            self.assertEqual(self.client.get("a"), b"\2" * 5)
            self.refused(refract.TooLarge, "fewer were reserved", r.resize, 100_001)
            self.refused(refract.InvalidArgument, "", r.resize, -1)
            self.client.put_many({"b": r})
            self.client.transaction(lambda t: t.put("c", r))
            self.assertEqual(self.client.get_many(["b", "c"]), [b"\2" * 5] * 2)
        self.refused(refract.InvalidArgument, "released", self.client.put, "a", r)
        self.refused(refract.InvalidArgument, "released", memoryview, r)
        items[...] = 5  # Its own memory still.
        other = refract.connect(self.address)
        mine = other.reserve(70_000)
        memoryview(mine)[:] = b"m" * 70_000
        other.close()
        self.client.put("a", mine)
        self.assertEqual(self.client.get("a"), b"m" * 70_000)

    def test_lengths_and_shapes_that_cannot_be_are_refused(self):
        reserve, build = self.client.reserve, self.client.build
        self.refused(refract.InvalidArgument, "no bytes", reserve, 0)
        for wrong in (-1, 1 << 63, 1 << 64):
            self.refused(refract.InvalidArgument, "size is 0 to", reserve, wrong)
            self.refused(refract.InvalidArgument, "a length is 0 to", build, "a", wrong)
            self.refused(refract.InvalidArgument, "a length is 0 to", build, "a", (2, wrong))
        for wrong in (1.5, "5", None, []):
            self.refused(TypeError, "whole number", reserve, wrong)
        for wrong in (1.5, None):
            self.assertRaises(TypeError, build, "a", wrong)
        for huge in (512 * MIB + 1, 1 << 40, (1 << 63) - 1):
            self.refused(refract.TooLarge, "512 MiB", reserve, huge)
            self.refused(refract.TooLarge, "512 MiB", build, "a", huge)
            self.refused(refract.TooLarge, "512 MiB", build, "a", (huge, huge))
        self.refused(ValueError, "", build, "a", (1,) * 33)
        self.refused(TypeError, "", build, "a", 3, "nothing")
        self.refused(refract.InvalidArgument, "'C' or 'F'", build, "a", 3, order="A")
        self.refused(refract.InvalidArgument, "no version is 0", build, "a", 3, if_version=0)
        for kind in (refract.Reservation, refract.Build, refract.View):
            self.assertRaises(TypeError, kind)
        self.assertEqual(list(self.client.scan()), [])

    # Into memory of the program's.

    def test_each_kind_of_target_has_the_value_and_no_byte_more(self):
        for length in LENGTHS:
            value = os.urandom(length)
            self.client.put("a", value)
            whole = length + 16
            mapped = mmap.mmap(-1, whole)
            plain = numpy.zeros(whole, "u1")
            wide = numpy.zeros((whole + 7) // 8, "f8")
            kinds = [bytearray(whole), memoryview(bytearray(whole)), mapped, plain, wide,
                     array.array("B", bytes(whole)), (ctypes.c_char * whole)(), numpy.zeros(whole, "S1"),
                     numpy.zeros(wide.size, "M8[s]"), Tensor(numpy.zeros(whole, "u1")),
                     self.client.reserve(whole)]
            raw = numpy.zeros(whole, "u1")
            kinds.append((address_of(raw), whole))
            many = [bytearray(whole) for _ in kinds]
            for target in kinds:
                with self.subTest(length=length, kind=type(target)):
                    self.assertEqual(self.client.get_into("a", target), length)
                    if isinstance(target, (Tensor, tuple)):
                        target = target.memory if isinstance(target, Tensor) else raw
                    found = target.tobytes() if isinstance(target, numpy.ndarray) else bytes(target)
                    self.assertEqual(found[:length], value)
                    if not isinstance(target, refract.Reservation):
                        self.assertEqual(found[length:whole], bytes(16))
            self.assertEqual(self.client.get_many_into(["a"] * len(many), many), [length] * len(many))
            self.assertTrue(all(target == value + bytes(16) for target in many))
            self.assertEqual(self.client.get_many_into(["a", "a"], [kinds[3], kinds[-1]]), [length] * 2)
            exact = bytearray(length)
            self.assertEqual((self.client.get_into("a", exact), exact), (length, value))

    def test_targets_that_are_too_short_are_as_they_were_and_told_how_long(self):
        for length in LENGTHS[1:]:
            self.client.put("a", os.urandom(length))
            short = bytearray(b"z" * (length - 1))
            error = self.refused(refract.TooLarge, f"has {length} bytes, its target {length - 1}",
                                 self.client.get_into, "a", short)
            self.assertEqual((error.value_bytes, short), (length, b"z" * (length - 1)))
            fits = bytearray(length)
            outcomes = self.client.get_many_into(["a", "none", "a", "x" * 65_536], [short, fits, fits, fits])
            self.assertEqual([type(each) for each in outcomes],
                             [refract.TooLarge, type(None), int, refract.TooLarge])
            self.assertEqual([getattr(each, "value_bytes", 0) for each in outcomes], [length, 0, 0, None])
        self.assertIsNone(refract.TooLarge("other").value_bytes)
        self.refused(KeyError, "get_into of 'none'", self.client.get_into, "none", bytearray())

    def test_targets_that_cannot_be_are_refused(self):
        self.client.put("a", b"abc")
        released = memoryview(bytearray(5))
        released.release()
        plain = numpy.zeros(5, "u1")
        frozen = plain.copy()
        frozen.flags.writeable = False
        for target, error, says in (
                (bytes(5), ValueError, "read-only"), (memoryview(bytes(5)), ValueError, "read-only"),
                (frozen, ValueError, "read-only"), (plain[::2], ValueError, "not contiguous"),
                (numpy.zeros((3, 3), order="F"), ValueError, "not contiguous"), (released, ValueError, ""),
                (numpy.array([None]), ValueError, "references"), ("text", TypeError, "a target is"),
                (5, TypeError, "a target is"), (None, TypeError, "a target is"), ((1, 2, 3), TypeError, ""),
                ((0, 3), ValueError, "address 0"), ((-1, 3), ValueError, "an address is"),
                ((5, -1), ValueError, "bytes at an address"), ((1 << 64, 1), ValueError, "an address is"),
                (((1 << 64) - 1, 2), ValueError, "no memory"), (("5", 3), TypeError, "whole number"),
                (Tensor(plain, "cuda"), ValueError, "cuda"),
                (Tensor(plain, contiguous=False), ValueError, "not contiguous")):
            with self.subTest(target=target):
                self.refused(error, says, self.client.get_into, "a", target)
                self.refused(error, says, self.client.get_many_into, ["a"], [target])
        self.refused(ValueError, "2 keys and 1 buffers", self.client.get_many_into, ["a", "b"], [plain])
        self.refused(TypeError, "not one key", self.client.get_many_into, "a", [plain])
        self.refused(TypeError, "not iterable", self.client.get_many_into, ["a"], 5)
        self.assertEqual(self.client.get_many_into([], []), [])
        self.assertEqual(plain.tolist(), [0] * 5)

    def test_a_target_is_held_as_long_as_it_is_written(self):
        """A bytearray that could be resized meanwhile would leave its memory to others."""
        self.client.put("a", bytes(MIB))

        class Resizes(bytearray):
            pass

        target = Resizes(MIB)
        view = memoryview(target)
        self.client.get_into("a", view)
        self.assertRaises(BufferError, target.extend, b"x")
        view.release()
        target.extend(b"x")

    def test_thousands_of_keys_in_one_call(self):
        keys = [f"page {number}" for number in range(3_000)]
        self.client.put_many([(key, key.encode() * 9) for key in keys if not key.endswith("7")])
        room = numpy.zeros((3_000, 100), "u1")
        outcomes = self.client.get_many_into(keys, list(room))
        for key, outcome, row in zip(keys, outcomes, room):
            wanted = None if key.endswith("7") else len(key) * 9
            self.assertEqual(outcome, wanted)
            self.assertEqual(row[:wanted or 0].tobytes(), key.encode() * 9 if wanted else b"")
        self.assertEqual(self.client.prefix_exists(keys), 7)
        self.assertEqual(self.client.prefix_exists(keys[10:17] * 100), 700)
        self.assertEqual((self.client.prefix_exists([]), self.client.prefix_exists(["none"])), (0, 0))
        self.refused(refract.InvalidArgument, "prefix_exists", self.client.prefix_exists, [keys[0], ""])
        self.refused(TypeError, "not one key", self.client.prefix_exists, "a")

    def test_a_closed_client_says_so(self):
        client = refract.connect(self.address)
        client.put_array("a", numpy.arange(1_000))
        build = client.build("b", 5)
        client.close()
        for call in (lambda: client.view("a"), lambda: client.array("a"), lambda: client.put_array("a", [1]),
                     lambda: client.build("a", 1), lambda: client.reserve(1),
                     lambda: client.get_many_into([], []), lambda: client.get_into("a", bytearray(9)),
                     lambda: client.prefix_exists([])):
            self.refused(refract.InvalidArgument, "closed", call)
        with build as a:  # It was begun before, and has a hold of its own.
            a[...] = 5
        self.assertEqual(self.client.array("b").tolist(), [5] * 5)

    def test_a_sequence_of_any_calls_does_what_a_dict_does(self):
        """Views and arrays that were taken before stay what they were, whatever follows."""
        keys = strategies.sampled_from(["a", "b", "c" * 100])
        lengths = strategies.sampled_from([0, 1, 10, 600, 5_000, 40_000])
        call = strategies.one_of(
            strategies.tuples(strategies.sampled_from(["put", "put_array", "build", "reserve"]), keys,
                              lengths),
            strategies.tuples(strategies.sampled_from(["view", "array", "erase", "drop", "get_into"]), keys,
                              lengths))
        count = [0]

        @hypothesis.settings(deadline=None, max_examples=60, derandomize=True, database=None)
        @hypothesis.given(strategies.lists(call, max_size=30))
        def run(calls):
            for key in self.client.scan():
                self.client.erase(key)
            model, held = {}, []
            for name, key, length in calls:
                count[0] += 1
                items = numpy.full(length, count[0], "<i4")
                data = items.tobytes()
                if name == "put":
                    self.client.put(key, items)
                    model[key] = (data, None)
                elif name == "put_array":
                    self.client.put_array(key, items)
                    model[key] = (data, items)
                elif name == "build":
                    with self.client.build(key, length, "<i4") as a:
                        a[...] = count[0]
                    model[key] = (data, items)
                elif name == "reserve" and length > 0:
                    with self.client.reserve(4 * length) as r:
                        memoryview(r)[:] = data
                        self.client.put(key, r)
                    model[key] = (data, None)
                elif name == "erase" and key in model:
                    self.client.erase(key)
                    del model[key]
                elif name == "drop" and held:
                    held.pop(length % len(held))
                elif name == "view" and key in model:
                    held.append((self.client.view(key), model[key]))
                elif name == "array" and key in model and model[key][1] is not None:
                    held.append((self.client.array(key), (model[key][1].tobytes(), None)))
                elif name == "get_into":
                    room = bytearray(4 * length + 128)
                    [outcome] = self.client.get_many_into([key], [room])
                    self.assertEqual(outcome is None, key not in model)
                    if isinstance(outcome, int):
                        self.assertTrue(room[:outcome].endswith(model[key][0]))
                        self.assertEqual(self.client.get_into(key, room), outcome)
                for seen, (wanted, saved_one) in held:
                    is_so = bytes(seen) == wanted if saved_one is None else bytes(seen).endswith(wanted)
                    self.assertTrue(is_so)
                self.assertEqual(self.client.prefix_exists(["a", "b"]),
                                 0 if "a" not in model else 1 if "b" not in model else 2)

        run()


class OnTheNodesHost(EachWay, unittest.TestCase):
    pass


class OverTcp(EachWay, unittest.TestCase):
    is_tcp = True


if __name__ == "__main__":
    unittest.main()
