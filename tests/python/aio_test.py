#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.aio, each call, with sound and with bad input: on the node's host and over TCP, by asyncio's own
loop and by uvloop's. Some 6 s.

Usage: aio_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import asyncio
import os
import pickle
import random
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, AioNode, begin, needs  # noqa: E402

begin()
needs("uvloop")
import numpy  # noqa: E402
import refract  # noqa: E402
import uvloop  # noqa: E402
from refract import aio  # noqa: E402


class EachAioCall(AioNode):
    def test_each_kind_of_buffer_goes_in_and_comes_out_as_it_was(self):
        async def work(client):
            table = numpy.arange(24, dtype="<f8").reshape(2, 3, 4)
            kinds = [b"", b"x", bytearray(b"abc"), memoryview(b"seen")[1:3], table, numpy.zeros(0)]
            kinds += [os.urandom(length) for length in (64, 30_000, 65_536, 65_537, 4 * MIB + 1)]
            for data in kinds:
                wanted = data.tobytes() if hasattr(data, "tobytes") else bytes(data)
                version = await client.put("kind", data)
                found = await client.get("kind")
                self.assertIs(type(found), bytes)
                self.assertEqual(found, wanted)
                self.assertEqual(await client.get_versioned("kind"), (wanted, version))
                [version] = await client.put_many({"many": data})
                self.assertEqual(await client.get_versioned("many"), (wanted, version))
                self.assertEqual(await client.get_many(["many", "none"]), [wanted, None])
                await client.cas("kind", data, b"other")
                self.assertEqual(await client.get(b"kind"), b"other")

        self.run_with(work)

    def test_the_calls_do_what_those_of_the_other_client_do(self):
        async def work(client):
            first = await client.put("a", b"1", if_absent=True)
            await self.refused(refract.Exists, "if_absent", client.put, "a", b"2", if_absent=True)
            await self.refused(refract.VersionMismatch, "version", client.put, "a", b"2",
                               if_version=first + 1)
            second = await client.put("a", b"2", if_version=first, ttl=30)
            self.assertTrue(29 < await client.ttl("a") <= 30)
            await self.refused(refract.VersionMismatch, "or value", client.cas, "a", b"1", b"3")
            await self.refused(refract.NotFound, "erase of 'none'", client.erase, "none")
            self.assertEqual(await client.erase("a", if_version=second), second)
            await self.refused(KeyError, "get of 'a': no entry has this key", client.get, "a")
            await self.refused(refract.NotFound, "get_versioned of b'a'", client.get_versioned, b"a")
            await self.refused(refract.NotFound, "ttl of 'a'", client.ttl, "a")
            self.assertEqual((await client.get("a", 5), await client.get("a", default=None)), (5, None))
            self.assertEqual([await client.add("n"), await client.add("n", -5)], [1, -4])
            self.assertIsNone(await client.ttl("n"))
            await client.put("n", b"word")
            await self.refused(refract.InvalidArgument, "decimal number", client.add, "n")
            outcomes = await client.put_many([("n", b""), ("b", b""), ("", b"")], if_absent=True)
            self.assertEqual([type(each) for each in outcomes],
                             [refract.Exists, int, refract.InvalidArgument])
            self.assertEqual(await client.exists_many(["n", "none"]), [True, False])
            self.assertEqual((await client.exists("n"), await client.exists("none")), (True, False))
            self.assertEqual([await client.get_many([]), await client.put_many({})], [[], []])
            route = await client.route()
            self.assertEqual((route.transport, str(route.shards)),
                             ("tcp" if self.is_tcp else "shm", self.shards))
            self.assertIn("transport", route.text)
            self.assertTrue(0 < (await client.ping()).seconds < 60)

        self.run_with(work)

    def test_a_scan_has_all_keys_or_those_that_begin_so(self):
        async def work(client):
            wanted = {f"user:{number}".encode() for number in range(2_000)}
            await client.put_many([(key, b"") for key in wanted] + [("other", b"")])
            self.assertEqual({key async for key in client.scan("user:")}, wanted)
            scan = client.scan(b"o", timeout=5)
            self.assertEqual([key async for key in scan], [b"other"])
            self.assertEqual([key async for key in scan], [])
            self.assertEqual(len(await client.get_many(sorted(wanted))), 2_000)
            await self.refused(TypeError, "a key is", lambda: client.scan(5).__anext__())

        self.run_with(work)

    def test_a_direct_read_stays_in_its_coroutine_and_any_may_be_a_task(self):
        async def work(client):
            await client.put("a", b"1")
            turns = []
            asyncio.get_running_loop().call_soon(turns.append, 1)
            values = [await client.get("a"), await client.get("none", None), await client.exists("a"),
                      await client.get_many(["a"]), (await client.get_versioned("a")).value,
                      await client.get("a", timeout=0)] if not self.is_tcp else []
            self.assertEqual(values, [b"1", None, True, [b"1"], b"1", b"1"] if not self.is_tcp else [])
            if not self.is_tcp:
                self.assertEqual(turns, [], "no other had a turn")
                self.assertFalse(isinstance(client.get("a"), asyncio.Future))
            for call in (client.get, client.get_versioned, client.exists, client.ttl):
                [task] = {asyncio.create_task(call("a"))}
                self.assertEqual(await task, await call("a"))
                self.assertEqual(await asyncio.wait_for(call("a"), 5), await call("a"))
            async with asyncio.TaskGroup() as group:
                put, gone = group.create_task(client.put("b", b"2")), group.create_task(client.get("c", 7))
            self.assertEqual((put.result() > 0, gone.result()), (True, 7))
            found = await asyncio.gather(client.get("a"), client.get("none"), return_exceptions=True)
            self.assertEqual((found[0], type(found[1])), (b"1", refract.NotFound))
            # An awaitable may be awaited twice, as a future may.
            one = client.get("a")
            self.assertEqual((await one, await one), (b"1", b"1"))
            task = asyncio.create_task(client.get("a"))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.run_with(work)

    def test_a_hundred_at_once_have_their_own_outcomes(self):
        async def work(client):
            keys = [f"key:{number}" for number in range(100)]
            await asyncio.gather(*(client.put(key, key.encode() * number) for number, key in enumerate(keys)))
            found = await asyncio.gather(*(client.get(key) for key in keys))
            self.assertEqual(found, [key.encode() * number for number, key in enumerate(keys)])
            await asyncio.gather(*(client.add("sum") for _ in range(100)))
            self.assertEqual(await client.get("sum"), b"100")
            await asyncio.gather(*(client.transaction(self.count) for _ in range(20)))
            self.assertEqual(await client.get("counted"), b"20")

        self.run_with(work)

    @staticmethod
    async def count(t):
        t.put("counted", str(int(await t.get("counted", b"0")) + 1).encode())

    def test_a_transaction_does_all_or_nothing(self):
        async def work(client):
            await client.put_many({"alice": b"30", "bob": b"5"})

            async def move(t):
                if int(await t.get("alice")) < 10:
                    raise ValueError("too poor")
                t.add("alice", -10)
                await t.add("bob", 10)
                t.erase("absent")
                return await t.get_many(["alice", "none"]), await t.exists("bob"), await t.get("none", 5)

            for _ in range(3):
                self.assertEqual((await client.transaction(move))[1:], (True, 5))
            try:
                await client.transaction(move)
            except ValueError as error:
                self.assertEqual(error.args, ("too poor",))
                names, trace = [], error.__traceback__
                while trace is not None:
                    names.append(trace.tb_frame.f_code.co_name)
                    trace = trace.tb_next
                self.assertEqual(names[-1], "move")
            else:
                self.fail("nothing was raised")
            self.assertEqual(await client.get_many(["alice", "bob"]), [b"0", b"35"])

            async def read(t):
                return await t.get("bob")

            async def write(t):
                t.put("a", b"")

            self.assertEqual(await client.transaction(read, read_only=True), b"35")
            await self.refused(refract.InvalidArgument, "", client.transaction, write, read_only=True)
            for wrong in (5, None):
                await self.refused(TypeError, "takes a function", client.transaction, wrong)
            await self.refused(TypeError, "await", client.transaction, lambda t: None)
            await self.refused(TypeError, "seconds", client.transaction, read, timeout="5")
            self.assertFalse(await client.exists("a"))

        self.run_with(work)

    def test_a_body_that_was_overtaken_runs_again(self):
        async def work(client):
            await client.put("a", b"0")
            runs = []

            async def body(t):
                value = int(await t.get("a"))
                runs.append(value)
                if len(runs) == 1:
                    await client.put("a", b"5")
                if len(runs) == 2:
                    await client.add("a")
                    await t.get("a")  # Raises Conflict, which the body lets pass.
                t.put("a", str(value + 1).encode())

            await client.transaction(body)
            self.assertEqual((runs, await client.get("a")), ([0, 5, 6], b"7"))

            async def overtaken(t):
                await t.get("a")
                await client.add("a")
                t.put("b", b"")

            await self.refused(refract.Conflict, "transaction: ", client.transaction, overtaken, timeout=0.05)
            self.assertFalse(await client.exists("b"))
            seen = []

            async def confused(t):
                seen.append(await t.get("a"))
                if len(seen) == 1:
                    await client.add("a")
                    await t.exists("b")
                    raise ZeroDivisionError
                return "done"

            self.assertEqual(await client.transaction(confused), "done")

        self.run_with(work)

    def test_a_transaction_is_good_inside_of_its_body_alone(self):
        async def work(client):
            kept = []

            async def keep(t):
                kept.append(t)
                t.put("outer", b"1")
                await client.put("direct", b"2")
                kept.append(t.get("unawaited", None))

                async def inner(other):
                    other.put("inner", b"3")

                await client.transaction(inner)
                await t.validate()

            await client.transaction(keep)
            for call, *given in ((kept[0].get, "a"), (kept[0].put, "a", b""), (kept[0].validate,)):
                await self.refused(refract.InvalidArgument, "whose body has returned", call, *given)
            try:
                self.assertIsNone(await kept[1])  # Over TCP it was under way.
            except refract.InvalidArgument as error:
                self.assertIn("whose body has returned", str(error))
            self.assertEqual(await client.get_many(["outer", "direct", "inner"]), [b"1", b"2", b"3"])

            # A body that is cancelled, or ended by what is no Exception, leaves nothing.
            async def stuck(t):
                t.put("never", b"")
                await asyncio.sleep(60)

            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await client.transaction(stuck)
            task = asyncio.create_task(client.transaction(stuck))
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertFalse(await client.exists("never"))

        self.run_with(work)

    def test_what_cannot_be_is_refused_by_each_call(self):
        async def work(client):
            calls = {"get": (), "get_versioned": (), "erase": (), "exists": (), "ttl": (), "add": (),
                     "put": (b"",), "cas": (b"", b"")}
            for name, more in calls.items():
                call = getattr(client, name)
                for key in (5, None, bytearray(b"a"), memoryview(b"a")):
                    await self.refused(TypeError, "a key is str or bytes, not ", call, key, *more)
                await self.refused(ValueError, "no UTF-8 form", call, "\ud800", *more)
                await self.refused(refract.InvalidArgument, "this one has none", call, "", *more)
                await self.refused(refract.TooLarge, "65,535", call, "x" * 65_536, *more)
                await self.refused(TypeError, "number of seconds", call, "a", *more, timeout="5")
                await self.refused(TypeError, "no argument nothing", call, "a", *more, nothing=5)
            for value in ("text", 5, None, numpy.arange(24).reshape(2, 12)[:, ::2]):
                await self.refused((TypeError, ValueError), "", client.put, "a", value)
                await self.refused((TypeError, ValueError), "", client.put_many, {"a": value})
            for keys in ("one", b"one"):
                await self.refused(TypeError, "not one key", client.get_many, keys)
            await self.refused(refract.NoSpace, "--memory-limit", client.put, "a", bytes(300 * MIB))
            for kind in (aio.Client, aio.Transaction):
                self.assertRaises(TypeError, kind)
            self.assertRaises(TypeError, pickle.dumps, client)

        self.run_with(work)

    def test_a_buffer_is_held_until_its_put_has_ended_also_where_nothing_awaits_it(self):
        async def work(client):
            data = bytearray(os.urandom(3 * MIB))
            wanted = bytes(data)
            call = client.put("a", data)
            if not isinstance(call, asyncio.Future):
                return
            self.assertRaises(BufferError, data.append, 1)
            del call
            self.assertRaises(BufferError, data.append, 1)
            while True:
                try:
                    data.append(1)
                    break
                except BufferError:
                    await asyncio.sleep(0)
            self.assertEqual(await client.get("a"), wanted)

        self.run_with(work)

    def test_calls_that_are_cancelled_at_any_moment_leave_whole_values_and_a_client_that_works(self):
        """Of some hundreds; what was answered stands."""

        async def work(client):
            chance, known = random.Random(7), {}
            wholes = {key: {bytes([n]) * (20_000 if n % 3 == 0 else 50) for n in range(8)} for key in "abc"}
            for round_ in range(60):
                tasks = []
                for n in range(8):
                    key = chance.choice("abc")
                    value = bytes([n]) * (20_000 if n % 3 == 0 else 50)

                    async def one(key=key, value=value):
                        await client.put(key, value)
                        await client.get_many(["a", "b"])
                        await client.get("c", None)
                        await client.transaction(self.count)
                        await client.add("n")
                        return True

                    tasks.append(asyncio.create_task(one()))
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                for task in tasks:
                    if chance.random() < 0.7:
                        task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                wrong = [each for each in ended
                         if each is not True and not isinstance(each, asyncio.CancelledError)]
                self.assertEqual(wrong, [])
                known["n"] = known.get("n", 0) + sum(each is True for each in ended)
                for key, whole in wholes.items():
                    found = await client.get(key, None)
                    self.assertTrue(found is None or found in whole)
                with self.subTest(round=round_):
                    self.assertGreaterEqual(int(await client.get("n", b"0")), known["n"])

        self.run_with(work)

    def test_a_sequence_of_any_calls_does_what_a_dict_does(self):
        async def work(client):
            chance, model = random.Random(3), {}
            for _ in range(1_500):
                key = chance.choice("abcd")
                value = chance.choice([b"7", b"", b"word", bytes(40_000)])
                call = chance.choice(["put", "get", "erase", "exists", "cas", "put_many", "transaction"])
                if call == "put":
                    await client.put(key, value)
                    model[key] = value
                elif call == "get":
                    self.assertEqual(await client.get(key, None), model.get(key))
                elif call == "exists":
                    self.assertEqual(await client.exists(key), key in model)
                elif call == "put_many":
                    items = {"a": value, key: b"many"}
                    await client.put_many(items)
                    model.update(items)
                elif call == "transaction":
                    other = chance.choice("abcd")

                    async def swap(t, key=key, other=other):
                        first, second = await t.get(key), await t.get(other)
                        t.put(key, second)
                        t.put(other, first)

                    try:
                        await client.transaction(swap)
                        model[key], model[other] = model[other], model[key]
                    except KeyError:
                        self.assertFalse(key in model and other in model)
                else:
                    given = () if call == "erase" else (b"7", value)
                    try:
                        await getattr(client, call)(key, *given)
                        self.assertTrue(key in model and (call == "erase" or model[key] == b"7"))
                        model.pop(key) if call == "erase" else model.update({key: value})
                    except KeyError:
                        self.assertFalse(key in model)
                    except refract.VersionMismatch:
                        self.assertNotEqual(model[key], b"7")
            self.assertEqual({key async for key in client.scan()}, {key.encode() for key in model})

        self.run_with(work)

    def test_a_closed_client_says_so_and_what_is_under_way_fails(self):
        async def work(client):
            async with await aio.connect(self.address) as other:
                self.assertIn(self.address, repr(other))
                scan = other.scan()
                calls = [other.put("large", bytes(2 * MIB)), other.put_many({"b": bytes(2 * MIB)})]
                other.close()
            self.assertTrue(other.is_closed and "closed" in repr(other))
            await other.close()
            ended = await asyncio.gather(*calls, return_exceptions=True)
            for each in ended:
                if isinstance(each, Exception):
                    self.assertIsInstance(each, refract.Indeterminate)
                    self.assertIn("was closed", str(each))
            calls = [lambda: other.get("a"), lambda: other.put("a", b""), lambda: other.get_many([]),
                     other.ping, other.route, lambda: other.transaction(self.count), scan.__anext__,
                     lambda: other.exists("a")]
            for call in calls:
                await self.refused(refract.InvalidArgument, "closed", call)
            # One that is let go of ends, too, behind what is under way.
            call = (await aio.connect(self.address)).put("last", b"1")
            self.assertGreater(await call, 0)

        self.run_with(work)

    def test_another_loop_than_its_own_is_told(self):
        async def connect():
            return await aio.connect(self.address)

        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            client = runner.run(connect())
            with self.assertRaises(refract.InvalidArgument) as caught:
                client.get("a")
            self.assertIn("none runs in this thread", str(caught.exception))

            async def elsewhere():
                for call in (lambda: client.get("a"), lambda: client.put("a", b""), client.ping,
                             lambda: client.exists("a"), lambda: client.transaction(self.count)):
                    await self.refused(refract.InvalidArgument, "in another event loop than", call)

            thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
            thread.start()
            thread.join()

            async def here():
                errors = []

                def work():
                    for call in (client.close, lambda: client.get("a")):
                        try:
                            call()
                        except refract.InvalidArgument as error:
                            errors.append(error)

                await asyncio.get_running_loop().run_in_executor(None, work)
                self.assertEqual(len(errors), 2)
                return await client.get("none", 5)

            self.assertEqual(runner.run(here()), 5)
            client.close()


class AioOnTheNodesHost(EachAioCall, unittest.TestCase):
    pass


class AioOverTcpByUvloop(EachAioCall, unittest.TestCase):
    is_tcp = True
    new_loop = staticmethod(uvloop.new_event_loop)


class AioWithShardsByUvloop(EachAioCall, unittest.TestCase):
    shards = "3"
    new_loop = staticmethod(uvloop.new_event_loop)


class AioOverTcp(EachAioCall, unittest.TestCase):
    is_tcp = True


if __name__ == "__main__":
    unittest.main()
