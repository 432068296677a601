#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.Client, each call, with sound and with bad input: on the node's host and over TCP. Some 10 s.

Usage: kv_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import array
import ctypes
import mmap
import os
import pickle
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, EmptyNode, begin, needs  # noqa: E402

begin()
needs("hypothesis")
import hypothesis  # noqa: E402
import numpy  # noqa: E402
import refract  # noqa: E402
from hypothesis import strategies  # noqa: E402


class Odd:
    """No key, no value, no number."""

    def __index__(self):
        raise ZeroDivisionError

    def __bool__(self):
        raise ZeroDivisionError


class EachKeyCall(EmptyNode):
    """A node, and a client that reaches it in one way."""

    def test_each_kind_of_buffer_goes_in_and_comes_out_as_it_was(self):
        """Of lengths about a message, what is copied under the lock, and what several threads copy."""
        table = numpy.arange(24, dtype="<f8").reshape(2, 3, 4)
        mapped = mmap.mmap(-1, 4096)
        self.addCleanup(mapped.close)
        mapped[:5] = b"12345"
        kinds = [b"", b"x", bytearray(b"abc"), memoryview(b"seen")[1:3], table, numpy.zeros(0), mapped,
                 numpy.array(["2020-01-01"], dtype="M8[D]"), array.array("d", [1.5, 2.5]),
                 (ctypes.c_int * 3)(1, 2, 3), numpy.zeros(3, dtype=[("a", "i4"), ("b", "f8")])]
        kinds += [os.urandom(length) for length in (63, 64, 65, 30_000, 65_535, 65_536, 65_537, 4 * MIB + 1)]
        for number, data in enumerate(kinds):
            with self.subTest(number=number):
                wanted = data.tobytes() if hasattr(data, "tobytes") else bytes(data)
                version = self.client.put("kind", data)
                found = self.client.get("kind")
                self.assertIs(type(found), bytes)
                self.assertEqual(found, wanted)
                self.assertEqual(self.client.get_versioned("kind"), (wanted, version))
                [version] = self.client.put_many({"many": data})
                self.assertEqual(self.client.get_versioned("many"), (wanted, version))
                self.assertEqual(self.client.get_many(["many", "kind"]), [wanted, wanted])
                self.client.cas("kind", data, b"other")
                self.assertEqual(self.client.get(b"kind"), b"other")

                def swap(t, data=data, wanted=wanted):
                    t.put("inside", data)
                    return t.get("inside") == wanted

                self.assertTrue(self.client.transaction(swap))
                self.assertEqual(self.client.get("inside"), wanted)

    def test_str_and_bytes_name_the_same_key(self):
        for key in ("a", "ä", "鍵", "a\0b", "x" * 65_535):
            self.client.put(key, key.encode())
            self.assertEqual(self.client.get(key.encode()), key.encode())
            self.assertTrue(key in self.client and key.encode() in self.client)
        self.assertEqual(len(set(self.client.scan())), 5)

    def test_what_is_absent_raises_or_is_the_default(self):
        error = self.refused(KeyError, "get of 'none': no entry has this key", self.client.get, "none")
        self.assertIsInstance(error, refract.NotFound)
        self.assertEqual((error.code, error.retry), ("not_found", "never"))
        missing = object()
        self.assertIs(self.client.get("none", missing), missing)
        self.assertIs(self.client.get("none", default=missing, timeout=1), missing)
        self.assertIsNone(self.client.get_versioned("none", None))
        self.refused(refract.NotFound, "get_versioned of b'none'", self.client.get_versioned, b"none")
        self.refused(refract.NotFound, "erase of 'none'", self.client.erase, "none")
        self.refused(refract.NotFound, "ttl of 'none'", self.client.ttl, "none")
        self.refused(refract.NotFound, "cas of 'none'", self.client.cas, "none", b"", b"")
        self.assertFalse(self.client.exists("none"))
        self.assertEqual(self.client.get_many(["none"]), [None])
        self.assertEqual(self.client.exists_many(["none"]), [False])

    def test_conditions_hold_or_nothing_is_changed(self):
        first = self.client.put("a", b"1", if_absent=True)
        self.refused(refract.Exists, "if_absent", self.client.put, "a", b"2", if_absent=True)
        self.refused(refract.VersionMismatch, "another version", self.client.put, "a", b"2",
                     if_version=first + 1)
        self.refused(refract.NotFound, "", self.client.put, "b", b"2", if_version=first)
        second = self.client.put("a", b"2", if_version=first)
        self.assertGreater(second, first)
        self.refused(refract.VersionMismatch, "", self.client.erase, "a", if_version=first)
        self.refused(refract.VersionMismatch, "or value", self.client.cas, "a", b"1", b"3")
        self.assertEqual(self.client.get_versioned("a"), (b"2", second))
        self.assertEqual(self.client.erase("a", if_version=second), second)
        outcomes = self.client.put_many([("a", b"1"), ("b", b"2")], if_absent=True)
        self.assertEqual([type(each) for each in outcomes], [int, int])
        again = self.client.put_many({"a": b"x", "c": b"3"}, if_absent=True)
        self.assertIsInstance(again[0], refract.Exists)
        self.assertIn("put of 'a'", str(again[0]))
        self.assertEqual(self.client.get_many(["a", "c"]), [b"1", b"3"])

    def test_entries_go_when_their_time_is_over(self):
        self.client.put("a", b"1", ttl=30)
        self.assertTrue(29 < self.client.ttl("a") <= 30)
        self.client.put("a", b"1")
        self.assertIsNone(self.client.ttl("a"))
        self.client.cas("a", b"1", b"2", ttl=0.02)
        self.client.put_many({"b": b"2"}, ttl=0.02)
        self.client.transaction(lambda t: t.put("c", b"3", ttl=0.02))
        time.sleep(0.05)
        self.assertEqual(self.client.get_many("abc".split() + ["a", "b", "c"])[1:], [None] * 3)
        self.assertEqual(list(self.client.scan()), [])

    def test_add_counts(self):
        sums = [self.client.add("n"), self.client.add("n", -5), self.client.add("n", numpy.int64(14))]
        self.assertEqual(sums, [1, -4, 10])
        self.assertEqual(self.client.get("n"), b"10")
        for no_number in [b"word", b"007", b"-0", b""]:
            self.client.put("n", no_number)
            self.refused(refract.InvalidArgument, "decimal number", self.client.add, "n")
        self.client.put("n", b"9223372036854775807")
        self.refused(refract.InvalidArgument, "", self.client.add, "n")
        self.refused(refract.InvalidArgument, "64 bits", self.client.add, "n", 1 << 63)

    def test_a_scan_has_all_keys_or_those_that_begin_so(self):
        wanted = {f"user:{number}".encode() for number in range(3_000)}
        self.client.put_many([(key, b"") for key in wanted])
        self.client.put("other", b"")
        scan = self.client.scan("user:")
        self.assertIs(iter(scan), scan)
        self.assertEqual(set(scan), wanted)
        self.assertEqual(list(scan), [])
        self.assertEqual(set(self.client.scan()), wanted | {b"other"})
        self.assertEqual(set(self.client.scan(b"o")), {b"other"})
        self.assertEqual(self.client.exists_many(sorted(wanted)), [True] * 3_000)
        self.assertEqual(self.client.get_many([*wanted, "none"])[-2:], [b"", None])
        self.assertEqual((self.client.get_many([]), self.client.put_many({}), self.client.exists_many(())),
                         ([], [], []))

    def test_a_transaction_does_all_or_nothing(self):
        self.client.put_many({"alice": b"30", "bob": b"5"})

        def move(t):
            if int(t.get("alice")) < 10:
                raise ValueError("too poor")
            t.add("alice", -10)
            t.add("bob", 10)
            t.erase("absent")
            return t.get_many(["alice", "none"]), t.exists("bob"), t.get("none", 5)

        for _ in range(3):
            self.assertEqual(self.client.transaction(move)[1:], (True, 5))
        # An exception comes out unchanged.
        try:
            self.client.transaction(move)
        except ValueError as error:
            self.assertEqual(error.args, ("too poor",))
            self.assertEqual(error.__traceback__.tb_next.tb_frame.f_code.co_name, "move")
        else:
            self.fail("nothing was raised")
        self.assertEqual(self.client.get_many(["alice", "bob"]), [b"0", b"35"])
        self.assertEqual(self.client.transaction(lambda t: t.get("bob"), read_only=True), b"35")
        self.refused(refract.InvalidArgument, "", self.client.transaction, lambda t: t.put("a", b""),
                     read_only=True)
        self.refused(refract.NotFound, "get of 'none'", self.client.transaction, lambda t: t.get("none"))

    def test_a_body_that_was_overtaken_runs_again(self):
        other = refract.connect(self.address)
        self.addCleanup(other.close)
        self.client.put("a", b"0")
        runs = []

        def body(t):
            value = int(t.get("a"))
            runs.append(value)
            if len(runs) == 1:
                other.put("a", b"5")
            if len(runs) == 2:
                other.add("a")
                t.get("a")  # Raises Conflict, which the body lets pass.
            t.put("a", str(value + 1).encode())

        self.client.transaction(body)
        self.assertEqual((runs, self.client.get("a")), ([0, 5, 6], b"7"))

        def overtaken(t):
            t.get("a")
            other.add("a")
            t.put("b", b"")

        self.refused(refract.Conflict, "transaction: ", self.client.transaction, overtaken, timeout=0.05)
        self.assertFalse(self.client.exists("b"))
        # What was raised on a picture that never was does not count.
        seen = []

        def confused(t):
            seen.append(t.get("a"))
            if len(seen) == 1:
                other.add("a")
                t.exists("b")
                raise ZeroDivisionError
            return "done"

        self.assertEqual(self.client.transaction(confused), "done")

    def test_a_transaction_is_good_inside_of_its_body_alone(self):
        kept = []
        self.client.transaction(kept.append)
        self.refused(refract.InvalidArgument, "whose body has returned", kept[0].get, "a")
        self.refused(refract.InvalidArgument, "whose body has returned", kept[0].put, "a", b"")

        def nested(t):
            t.put("outer", b"1")
            self.client.put("direct", b"2")
            inner = self.client.transaction(lambda other: other.put("inner", b"3"))
            t.validate()
            return inner

        self.assertIsNone(self.client.transaction(nested))
        self.assertEqual(self.client.get_many(["outer", "direct", "inner"]), [b"1", b"2", b"3"])

    def test_a_body_may_be_ended_by_what_is_no_exception(self):
        def leave(t):
            t.put("a", b"")
            raise SystemExit(3)

        with self.assertRaises(SystemExit):
            self.client.transaction(leave)
        self.assertFalse(self.client.exists("a"))

    def test_the_way_and_the_sign_of_life_are_told(self):
        route = self.client.route()
        self.assertEqual((route.transport, route.is_direct), ("tcp", False) if self.is_tcp else ("shm", True))
        self.assertEqual(str(route.shards), self.shards)
        self.assertIn("transport", route.text)
        pong = self.client.ping()
        self.assertTrue(0 < pong.seconds < 60 and pong.node_time > 1e9)

    def test_keys_that_cannot_be_are_refused_by_each_call(self):
        calls = {"get": (), "get_versioned": (), "erase": (), "exists": (), "ttl": (), "add": (),
                 "put": (b"",), "cas": (b"", b"")}
        for name, more in calls.items():
            call = getattr(self.client, name)
            with self.subTest(name=name):
                for key in (5, None, 1.5, ["a"], bytearray(b"a"), memoryview(b"a"), Odd(), numpy.bytes_):
                    self.refused(TypeError, "a key is str or bytes, not ", call, key, *more)
                self.refused(ValueError, "no UTF-8 form", call, "\ud800", *more)
                self.refused(refract.InvalidArgument, "this one has none", call, "", *more)
                self.refused(refract.InvalidArgument, "this one has none", call, b"", *more)
                self.refused(refract.TooLarge, "65,535", call, "x" * 65_536, *more)
        many = self.client.get_many(["", "x" * 65_536, "none"])
        self.assertEqual([type(each) for each in many],
                         [refract.InvalidArgument, refract.TooLarge, type(None)])
        many = self.client.exists_many([b"", "none"])
        self.assertEqual([type(each) for each in many], [refract.InvalidArgument, bool])
        many = self.client.put_many([("", b""), ("ok", b"")])
        self.assertEqual([type(each) for each in many], [refract.InvalidArgument, int])
        for key in (5, Odd()):
            self.refused(TypeError, "a key is", self.client.get_many, [key])
            self.refused(TypeError, "a key is", self.client.put_many, {key: b""})
        for keys in ("one", b"one"):
            self.refused(TypeError, "not one key", self.client.get_many, keys)
            self.refused(TypeError, "not one key", self.client.exists_many, keys)
        self.refused(TypeError, "not iterable", self.client.get_many, 5)

        def inside(t):
            for call, more in ((t.get, ()), (t.exists, ()), (t.put, (b"",)), (t.erase, ()), (t.add, ())):
                self.refused(TypeError, "a key is", call, 5, *more)
                self.refused(refract.InvalidArgument, "this one has none", call, "", *more)

        self.client.transaction(inside)

    def test_values_that_cannot_be_are_refused(self):
        released = memoryview(bytearray(b"abc"))
        released.release()
        for value, error in (("text", TypeError), (5, TypeError), (None, TypeError), (Odd(), TypeError),
                             (numpy.arange(24).reshape(2, 12)[:, ::2], ValueError),
                             (memoryview(bytes(10))[::2], ValueError), (released, ValueError),
                             (numpy.array([None, 1], dtype=object), ValueError)):
            with self.subTest(value=type(value)):
                self.refused(error, "", self.client.put, "a", value)
                self.refused(error, "", self.client.put_many, {"a": value})
                self.refused(error, "", self.client.cas, "a", value, b"")
                self.refused(error, "", self.client.cas, "a", b"", value)
                self.refused(error, "", self.client.transaction, lambda t, value=value: t.put("a", value))
        self.refused(TypeError, "pickle.dumps", self.client.put, "a", "text")
        self.assertFalse(self.client.exists("a"))
        self.refused(refract.TooLarge, "512 MiB", self.client.put, "a", mmap.mmap(-1, 512 * MIB + 1))
        self.refused(refract.NoSpace, "--memory-limit", self.client.put, "a", mmap.mmap(-1, 300 * MIB))
        self.refused(refract.TooLarge, "16 MiB", self.client.transaction,
                     lambda t: t.put("a", bytes(17 * MIB)))

    def test_options_that_cannot_be_are_refused(self):
        put = self.client.put
        for ttl in (0, -1, float("nan")):
            self.refused(ValueError, "ttl is ", put, "a", b"", ttl=ttl)
        for wrong in ("5", b"", True, [], Odd()):
            self.refused(TypeError, "number of seconds", put, "a", b"", ttl=wrong)
            self.refused(TypeError, "number of seconds", put, "a", b"", timeout=wrong)
        self.refused(ValueError, "", put, "a", b"", timeout=-1)
        self.refused(ValueError, "no version is 0", put, "a", b"", if_version=0)
        self.refused(ValueError, "if_version is 0 to", put, "a", b"", if_version=-1)
        self.refused(ValueError, "if_version is 0 to", put, "a", b"", if_version=1 << 64)
        self.refused(TypeError, "whole number", put, "a", b"", if_version=1.5)
        self.refused(ValueError, "contradict", put, "a", b"", if_version=1, if_absent=True)
        self.refused(ZeroDivisionError, "", put, "a", b"", if_absent=Odd())
        self.refused(TypeError, "whole number", self.client.add, "a", "5")
        self.refused(TypeError, "misses its argument value", put, "a")
        self.refused(TypeError, "misses its argument key", put, value=b"")
        self.refused(TypeError, "no argument nothing", put, "a", b"", nothing=1)
        self.refused(TypeError, "twice: key", put, "a", b"", key="b")
        self.refused(TypeError, "by place, not 3", put, "a", b"", 5)
        self.refused(TypeError, "", self.client.get)
        self.refused(TypeError, "takes a function", self.client.transaction, 5)
        for items in ([("a",)], [("a", b"", 1)], ["ab"], [["a", b""]]):
            self.refused(TypeError, "(key, value)", self.client.put_many, items)
        self.assertEqual(list(self.client.scan()), [])
        self.assertEqual(put("a", b"", ttl=1e300, timeout=1e300) > 0, True)
        for kind in (refract.Client, refract.Transaction):
            self.refused(TypeError, "cannot create", kind)
        self.refused(TypeError, "pickle", pickle.dumps, self.client)

    def test_a_closed_client_says_so(self):
        scan = self.client.scan()
        with refract.connect(self.address) as client:
            self.assertIn(self.address, repr(client))
            self.assertEqual((client.address, client.is_closed), (self.address, False))
        client.close()
        self.assertTrue(client.is_closed and "closed" in repr(client))
        calls = [lambda: client.get("a"), lambda: client.put("a", b""), lambda: client.erase("a"),
                 lambda: client.exists("a"), lambda: client.cas("a", b"", b""), lambda: client.ttl("a"),
                 lambda: client.add("a"), lambda: client.get_many([]), lambda: client.put_many([]),
                 client.ping, client.route, client.scan,
                 lambda: client.exists_many([]), lambda: client.transaction(len), lambda: "a" in client]
        for call in calls:
            self.refused(refract.InvalidArgument, "closed", call)
        self.client.close()
        self.assertEqual(list(scan), [])  # It was begun before, and has a hold of its own.

    def test_a_sequence_of_any_calls_does_what_a_dict_does(self):
        keys = strategies.sampled_from(["a", "b", "c", "d" * 300])
        values = strategies.one_of(strategies.binary(max_size=80),
                                   strategies.sampled_from([b"7", bytes(40_000)]))
        call = strategies.one_of(
            strategies.tuples(strategies.just("put"), keys, values),
            strategies.tuples(strategies.sampled_from(["get", "erase", "add", "exists"]), keys),
            strategies.tuples(strategies.just("cas"), keys, values, values),
            strategies.tuples(strategies.just("put_many"), strategies.dictionaries(keys, values)),
            strategies.tuples(strategies.just("transaction"), keys, keys, strategies.booleans()))

        @hypothesis.settings(deadline=None, max_examples=60, derandomize=True, database=None)
        @hypothesis.given(strategies.lists(call, max_size=25))
        def run(calls):
            for key in self.client.scan():
                self.client.erase(key)
            model = {}
            for name, *given in calls:
                self.assertEqual(outcome(lambda: getattr(Real, name)(self.client, *given)),
                                 outcome(lambda: getattr(Model, name)(model, *given)), (name, given))
                self.assertEqual(self.client.get_many(["a", "b", "c", "d" * 300]),
                                 [model.get(key) for key in ("a", "b", "c", "d" * 300)])
            self.assertEqual(set(self.client.scan()), {key.encode() for key in model})

        run()


def outcome(call):
    try:
        return call()
    except (KeyError, ValueError, refract.VersionMismatch) as error:
        name = type(error).__name__
        return {"InvalidArgument": "ValueError", "NotFound": "KeyError"}.get(name, name)


class Real:
    """The calls of the client, with outcomes that a dict has, too."""

    put = staticmethod(lambda client, key, value: client.put(key, value) and None)
    get = staticmethod(lambda client, key: client.get(key))
    erase = staticmethod(lambda client, key: client.erase(key) and None)
    exists = staticmethod(lambda client, key: client.exists(key))
    add = staticmethod(lambda client, key: client.add(key))
    cas = staticmethod(lambda client, key, old, new: client.cas(key, old, new) and None)
    put_many = staticmethod(lambda client, items: len(client.put_many(items)))

    @staticmethod
    def transaction(client, one, other, fails):
        def swap(t):
            first, second = t.get(one), t.get(other)
            t.put(one, second)
            t.put(other, first)
            if fails:
                raise KeyError
            return t.get(one)

        return client.transaction(swap)


class Model:
    put = staticmethod(lambda model, key, value: model.update({key: value}))
    get = staticmethod(lambda model, key: model[key])
    erase = staticmethod(lambda model, key: model.pop(key) and None)
    exists = staticmethod(lambda model, key: key in model)

    @staticmethod
    def add(model, key):
        text = model.get(key, b"0").decode("ascii", "replace")
        if not (text.lstrip("-").isdigit() and str(int(text)) == text):
            raise ValueError
        model[key] = str(int(text) + 1).encode()
        return int(model[key])

    @staticmethod
    def cas(model, key, old, new):
        if model[key] != old:
            raise refract.VersionMismatch
        model[key] = new

    @staticmethod
    def put_many(model, items):
        model.update(items)
        return len(items)

    @staticmethod
    def transaction(model, one, other, fails):
        model[one], model[other]
        if fails:
            raise KeyError
        model[one], model[other] = model[other], model[one]
        return model[one]


class KeysOnTheNodesHost(EachKeyCall, unittest.TestCase):
    shards = "1"


class KeysOnTheNodesHostWithShards(EachKeyCall, unittest.TestCase):
    shards = "3"


class KeysOverTcp(EachKeyCall, unittest.TestCase):
    is_tcp = True
    shards = "1"


if __name__ == "__main__":
    unittest.main()
