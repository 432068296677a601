#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.aio between processes, threads, loops and the end of each: servers that are stopped and killed,
forks, loops that close. Some 10 s.

Usage: aio_processes_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, PATIENCE_S, Node, Package, begin, needs, run_python  # noqa: E402

begin()
needs("uvloop")
import refract  # noqa: E402
import uvloop  # noqa: E402
from refract import aio  # noqa: E402

UNKNOWN = (refract.Indeterminate, refract.Unavailable, refract.DeadlineExceeded)
LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


def run(work, new_loop=asyncio.new_event_loop):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(asyncio.wait_for(work, PATIENCE_S))


def resident_kib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


class AioProcesses(unittest.TestCase):
    def setUp(self):
        self.node = Node("--memory-limit", "256MiB", "--listen-address", "127.0.0.1:0")
        self.addCleanup(self.node.__exit__)
        self.tcp = f"refract://{self.node.tcp_address}?transport=tcp"
        self.addresses = (self.node.socket, self.tcp)

    def ended_well(self, done, printed=""):
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, printed, ""))

    def test_while_the_server_is_stopped_direct_gets_continue_and_puts_end_at_once_when_cancelled(self):
        async def work():
            client = await aio.connect(self.node.socket, timeout=60)
            tcp = await aio.connect(self.tcp, timeout=60)
            await client.put_many({"a": b"1", "large": bytes(5 * MIB)})
            await tcp.get("a")
            with self.node.stopped_server():
                self.assertEqual([await client.get("a"), await client.get("none", None)], [b"1", None])
                self.assertEqual(await client.get("large"), bytes(5 * MIB))
                self.assertEqual(await client.get_many(["a", "none"]), [b"1", None])
                self.assertEqual({key async for key in client.scan()}, {b"a", b"large"})
                begun = time.monotonic()
                waits = []
                for one in (client, tcp):
                    waits += [(one.put, "b", b""), (one.put, "c", bytes(5 * MIB)), (one.erase, "a"),
                              (one.add, "n"), (one.cas, "a", b"1", b"2"), (one.ping,),
                              (one.put_many, {"d": bytes(5 * MIB), "e": b""}), (one.transaction, self.write)]
                waits += [(tcp.get, "a"), (tcp.exists, "a"), (tcp.get_many, ["a"]), (tcp.ttl, "a"),
                          (tcp.scan().__anext__,), (tcp.transaction, self.read), (tcp.exists_many, ["a"])]
                for call, *given in waits:
                    with self.assertRaises(TimeoutError):
                        async with asyncio.timeout(0.005):
                            await call(*given)
                    with self.assertRaises(TimeoutError):
                        await asyncio.wait_for(call(*given), 0.005)
                # Its own timeout says what is known.
                for one in (client, tcp):
                    for call in (one.put("b", b"", timeout=0.01), one.put("c", bytes(5 * MIB), timeout=0.01),
                                 one.add("n", timeout=0.01), one.erase("a", timeout=0.01)):
                        with self.assertRaises(refract.Indeterminate):
                            await call
                    [outcome] = await one.put_many({"d": b""}, timeout=0.01)
                    self.assertIsInstance(outcome, refract.Indeterminate)
                with self.assertRaises(refract.DeadlineExceeded) as caught:
                    await tcp.get("a", timeout=0.01)
                self.assertIn("get of 'a'", str(caught.exception))
                [outcome] = await tcp.get_many(["a"], timeout=0.01)
                self.assertIsInstance(outcome, refract.DeadlineExceeded)
                self.assertLess(time.monotonic() - begun, 30)
            for one in (client, tcp):
                await one.put("again", b"1")
                self.assertEqual(await one.get("again"), b"1")
                await one.close()

        run(work())

    @staticmethod
    async def write(t):
        t.put("x", b"")
        t.put("y", b"")

    @staticmethod
    async def read(t):
        return await t.get("a", None)

    def test_a_killed_server_is_found_again_and_what_was_answered_stands(self):
        async def work():
            for address in self.addresses:
                async with await aio.connect(address) as client:
                    done = 0

                    async def write(number, client=client):
                        nonlocal done
                        while done < 200:
                            try:
                                version = await client.put(f"n{number}", str(done).encode())
                                self.assertGreaterEqual((await client.get_versioned(f"n{number}")).version,
                                                        version)
                                await client.transaction(self.write)
                                done += 1
                            except UNKNOWN:
                                pass

                    writers = [asyncio.create_task(write(number)) for number in range(4)]
                    for goal in (20, 80):
                        while done < goal:
                            await asyncio.sleep(0.001)
                        await asyncio.to_thread(self.node.kill_server)
                    await asyncio.gather(*writers)

        run(work())

    def test_a_node_that_is_dead_is_told(self):
        async def work():
            client = await aio.connect(self.node.socket, timeout=0.5)
            await client.put("a", b"1")
            server = self.node.server()
            self.node.process.kill()
            self.node.process.wait()
            os.kill(server, 9)
            for _ in range(2):
                with self.assertRaises(UNKNOWN):
                    await client.put("b", b"1")
            with self.assertRaises(refract.Unavailable):
                await aio.connect(self.node.socket, timeout=0.5)
            with self.assertRaises(refract.InvalidArgument):
                await aio.connect("refract://")
            # Gets see it after some hundreds.
            with self.assertRaises(refract.Unavailable):
                for _ in range(2_000):
                    await client.get("a")

        run(work())

    def test_a_client_that_rests_takes_no_turns_and_no_processor_time(self):
        for new_loop in LOOPS:
            async def work():
                clients = [await aio.connect(address) for address in self.addresses]
                for client in clients:
                    await client.put("a", b"1")
                # Alarms of timeouts that were not needed ring once, and no more.
                await asyncio.sleep(0.05)
                before = time.process_time()
                await asyncio.sleep(0.6)
                self.assertLess(time.process_time() - before, 0.05)
                for client in clients:
                    self.assertEqual(await client.get("a"), b"1")

            run(work(), new_loop)

    def test_no_wake_up_is_lost_however_calls_and_rests_follow_each_other(self):
        """One that is lost would stand until the call's timeout, which is longer than this test may take."""
        for new_loop in LOOPS:
            async def work():
                for address in self.addresses:
                    client = await aio.connect(address, timeout=10 * PATIENCE_S)
                    for turn in range(1_000):
                        await client.put("a", b"x" * (turn % 100))
                        if turn % 3 == 0:
                            await asyncio.sleep(0)
                        if turn % 100 == 0:
                            await asyncio.sleep(0.001)
                        await client.add("n")
                        await asyncio.gather(client.get("a"), client.ttl("a"), client.put("b", b"1"))

            run(work(), new_loop)

    def test_each_of_two_loops_in_two_threads_has_its_client(self):
        wrong = []

        async def work(number):
            async with await aio.connect(self.addresses[number % 2]) as client:
                for turn in range(150):
                    key, value = f"{number} {turn}", bytes([number]) * (turn * 997)
                    await client.put(key, value)
                    if await client.get(key) != value:
                        wrong.append(key)
                await asyncio.gather(*(client.add("sum") for _ in range(50)))

        threads = [threading.Thread(target=lambda n=number: run(work(n), LOOPS[n // 2]))
                   for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with refract.connect(self.node.socket) as client:
            self.assertEqual((wrong, client.get("sum")), ([], b"200"))

    def test_another_thread_may_let_go_of_the_last_reference_while_the_loop_runs(self):
        for new_loop in LOOPS:
            for address in self.addresses:
                kept, is_over = [], threading.Event()

                async def work(address=address, kept=kept, is_over=is_over):
                    client = await aio.connect(address)
                    await client.put("a", b"1")
                    kept.extend([client, os.listdir("/proc/self/fd")])
                    del client
                    await asyncio.to_thread(kept.pop, 0)
                    while len(os.listdir("/proc/self/fd")) >= len(kept[0]):
                        await asyncio.sleep(0.001)
                    is_over.set()

                thread = threading.Thread(target=lambda: run(work(), new_loop))
                thread.start()
                thread.join()
                self.assertTrue(is_over.is_set())

    def test_loops_close_with_calls_under_way(self):
        with self.assertLogs("asyncio") as logs:
            self.close_loops()
        self.assertTrue(all("exception was never retrieved" in line for line in logs.output), logs.output)

    def close_loops(self):
        held = bytearray(3 * MIB)
        for new_loop in LOOPS:
            for address in self.addresses:
                kept = []

                async def work(stack, address=address, kept=kept):
                    client = await aio.connect(address)
                    await client.put("a", b"1")
                    stack.enter_context(self.node.stopped_server())
                    kept.extend([client, client.put("b", held), client.put_many({"c": held}),
                                 asyncio.create_task(client.transaction(self.write))])

                with contextlib.ExitStack() as stack:
                    run(work(stack), new_loop)
                self.assertRaises(refract.InvalidArgument, kept[0].get, "a")
                kept[0].close()
                held.append(1)  # Nothing holds it any more.
                # The same, and what is left is garbage.
                kept.clear()
                with contextlib.ExitStack() as stack:
                    run(work(stack), new_loop)
                files = len(os.listdir("/proc/self/fd"))
                kept.clear()
                gc.collect()
                self.assertLess(len(os.listdir("/proc/self/fd")), files)
                held.append(1)

    def test_after_a_fork_the_child_is_told_and_the_parent_continues(self):
        for address in self.addresses:
            done = run_python("""
                import asyncio
                async def main():
                    client = await refract.aio.connect(sys.argv[1])
                    await client.put("a", b"1")
                    under_way = client.put("b", bytes(3_000_000))
                    if os.fork() == 0:
                        for call in (lambda: client.get("a"), lambda: client.put("a", b""), client.ping,
                                     lambda: client.get_many(["a"]), lambda: client.transaction(len)):
                            try:
                                call().send(None)
                                say("no word of the fork")
                            except refract.Forked as error:
                                if "connect()" not in str(error): say(error)
                        client.close()
                        del client, under_way
                        async def again():
                            other = await refract.aio.connect(sys.argv[1])
                            say(await other.get("a"))
                        asyncio._set_running_loop(None)
                        asyncio.run(again())
                        os._exit(0)
                    say(os.wait()[1], await under_way > 0, await client.add("n"), await client.get("a"))
                asyncio.run(main())
                """, address)
            count = 1 if address == self.node.socket else 2
            printed = f"b'1'\n0 True {count} b'1'\n"
            self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)

    def test_a_process_ends_quietly_whatever_is_alive(self):
        begins = """
import asyncio
async def begin():
    global client, calls
    client = await refract.aio.connect(sys.argv[1])
    calls = [client.put("a", bytes(3_000_000)), client.get("a", None), client.scan()]
"""
        endings = {
            "a client behind its loop": "asyncio.run(begin())",
            "a loop that was not closed": "loop = asyncio.new_event_loop(); loop.run_until_complete(begin())",
            "a cycle": "asyncio.run(begin()); held = [client, calls]; held.append(held)",
            "uvloop": "import uvloop; uvloop.install(); asyncio.run(begin())",
        }
        for address in self.addresses:
            for name, ending in endings.items():
                with self.subTest(name=name):
                    self.ended_well(run_python(begins + ending + "\n", address))

    def test_calls_of_each_kind_leave_memory_and_descriptors_flat(self):
        async def some(client, turns):
            for _ in range(turns):
                await client.put("a", bytes(100))
                await client.put("large", bytes(100_000), ttl=5)
                for value in (client.get("a"), client.get("large"), client.get("none", None),
                              client.ttl("large"), client.get_versioned("a"), client.get_many(["a", "none"]),
                              client.route(), client.put_many({"a": b"1"}), client.exists_many(["a"]),
                              client.exists("a"), client.add("n"), client.ping(),
                              client.transaction(self.read)):
                    await value
                await client.cas("a", b"1", b"2")
                async for _key in client.scan():
                    pass
                for fails in (client.get("none"), client.put("a", b"", if_absent=True), client.erase("none")):
                    try:
                        await fails
                    except refract.Error:
                        pass
                client.put("dropped", bytes(1_000))
                for late in (client.put("large", bytes(100_000)), client.put_many({"d": bytes(100_000)}),
                             client.put("late", b""), client.get("large"), client.get_many(["large"])):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(late, 0)
                other = await aio.connect(client.address)
                await other.close()

        async def work():
            turns, rounds_most = 80, 10
            for address in self.addresses:
                async with await aio.connect(address) as client:
                    await some(client, 40)
                    gc.collect()
                    # What is kept for the next calls grows at first, on a busy machine for longer. What leaks
                    # an object in each turn grows in all rounds.
                    for _ in range(rounds_most):
                        before, blocks = resident_kib(), sys.getallocatedblocks()
                        files = len(os.listdir("/proc/self/fd"))
                        await some(client, turns)
                        await asyncio.sleep(0.01)
                        gc.collect()
                        # The address sanitizer keeps what is freed for a while.
                        self.assertLess(resident_kib() - before, 300_000 if Package.preload else 4096)
                        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
                        grown = sys.getallocatedblocks() - blocks
                        if grown < turns // 2:
                            break
                    self.assertLess(grown, turns // 2)

        run(work())


if __name__ == "__main__":
    unittest.main()
