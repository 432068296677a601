# SPDX-License-Identifier: Apache-2.0
"""The keys and values of a node for asyncio: the calls of `refract.Client`, each of which is awaited.

    import asyncio
    import refract

    async def main():
        async with await refract.aio.connect() as client:   # Or a path, or "refract://host:port".
            await client.put("greeting", b"hello", ttl=30)  # Any C-contiguous buffer; times are seconds.
            await client.get("greeting")                    # b"hello"
            await client.get("none", None)                  # None; without a default it raises NotFound.
            values = await asyncio.gather(*(client.get(f"user:{n}", None) for n in range(100)))
            async for key in client.scan("user:"):
                print(key)

            async def move(t):                              # All of it at one moment, or nothing.
                if int(await t.get("alice")) < 10:
                    raise ValueError("too poor")
                t.add("alice", -10)
                t.add("bob", 10)

            await client.transaction(move)
            async with client.build("frame", (1080, 1920), "u1") as a:   # Put at the end of the block.
                a[...] = 0
            frame = await client.array("frame")             # numpy, read-only, in the node's memory.
            await client.get_into("frame", bytearray(frame.nbytes + 4096))
            async with asyncio.timeout(0.1):                # Ends the call, and leaves its outcome unknown.
                await client.put("a", b"1")

    asyncio.run(main())

There is no thread behind it: the event loop watches one descriptor, and a client that rests costs nothing.
What is read from the node's memory is there at once. Each loop has clients of its own, also that of another
thread.

    from refract import aio                                 # The same module.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from refract._refract import AioBuild as Build
from refract._refract import AioClient as Client
from refract._refract import AioTransaction as Transaction
from refract._refract import InvalidArgument, aio_begin_transaction, aio_connect, aio_scan_page

__all__ = ["Build", "Call", "Client", "Scan", "Transaction", "connect"]

_T = TypeVar("_T")

if TYPE_CHECKING:
    _Future = asyncio.Future[Any]
else:
    _Future = asyncio.Future


class Call(_Future):
    """A call that is under way: an asyncio.Future whose cancel() ends it, at once; or, where the value of a
    get_into() is just coming, within a twentieth of a second.

    It is a coroutine, too, as far as asyncio.create_task() is concerned.
    """

    _turns: Any = None
    _number = 0
    _steps: Any = None
    _message: Any = None

    def cancel(self, msg: Any = None) -> bool:
        """Ends the call. What it had sent may be done or not. False: it was over."""
        if self.done():
            return False
        if self._turns.drop(self._number):
            return super().cancel(msg)
        self._message = msg
        return True

    def _cancel_now(self) -> None:
        super().cancel(self._message)

    def send(self, value: Any) -> Any:
        """As of a coroutine."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """As of a coroutine: ends the call."""
        self.close()
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """As of a coroutine: ends the call."""
        self.cancel()
        self._turns.finish(self._number)

    async def __aenter__(self) -> Any:
        """Of a call whose outcome is good for `with`: `async with client.view(key) as v`."""
        return (await self).__enter__()

    async def __aexit__(self, *error: Any) -> Any:
        """The end of what it gave."""
        return self.result().__exit__(*error)


async def connect(
    address: str | os.PathLike[str] = "",
    *,
    secret_file: str | os.PathLike[str] = "",
    timeout: float = 5.0,
) -> Client:
    """Connects to a node, and returns a Client of its keys for the event loop that runs here.

    address: the path of a node's socket; 'refract://host:port'; empty: this user's default socket.
    secret_file: what a node on another host asks for; empty: what $REFRACT_SECRET_FILE names.
    timeout: how many seconds one call may take; of a long value or many keys, each message of it.
    Raises Unavailable, InvalidArgument, AccessDenied.
    """
    loop = asyncio.get_running_loop()
    return await aio_connect(loop, Call, address, secret_file, timeout)


class Scan:
    """The keys of a scan, as bytes, one after the other: `async for`."""

    def __init__(self, client: Client, prefix: bytes, timeout: float | None) -> None:
        self._client = client
        self._prefix = prefix
        self._timeout = timeout
        self._keys: list[bytes] = []
        self._cursor: int | None = 0
        self._is_reading = False

    def __aiter__(self) -> Scan:
        return self

    async def __anext__(self) -> bytes:
        while not self._keys:
            if self._cursor is None:
                raise StopAsyncIteration
            if self._is_reading:
                raise InvalidArgument("another task is in this scan")
            self._is_reading = True
            try:
                page = await aio_scan_page(self._client, self._cursor, self._prefix, self._timeout)
            finally:
                self._is_reading = False
            self._keys, following = page
            self._cursor = following or None
        return self._keys.pop()


async def run_transaction(
    client: Client,
    body: Callable[[Transaction], Awaitable[_T]],
    *,
    timeout: float | None = None,
    read_only: bool = False,
) -> _T:
    """Client.transaction(): the body runs here, in the task that called."""
    if not callable(body):
        raise TypeError("transaction() takes a function of a transaction")
    run = aio_begin_transaction(client, timeout, read_only)
    raised: Exception | None = None
    try:
        given: Transaction | None = await run.begin()
        while given is not None:
            raised = None
            try:
                result = await body(given)
            except Exception as error:
                raised = error
            given = await run.ended(raised)
        # It counts where what the body has read stood together, and so it does.
        if raised is not None:
            raise raised
        return result
    finally:
        raised = None
        run.drop()
