# SPDX-License-Identifier: Apache-2.0
"""A RemoteConnector of LMCache: chunks of its cache in a node.

    remote_url: "external://node:0/refract.connectors.lmcache/?connector_name=RefractConnector"
    extra_config:
        refract_address: "/run/refract/node.sock"

It has been tested against a stand-in with RemoteConnector's signatures, and has not run inside LMCache.

Of extra_config it takes `refract_address`, `refract_secret_file` and `refract_timeout` (seconds, 5), as
refract.connect() does; `refract_prefix` of the keys ("lmcache/"); and `refract_ttl`, after how many seconds a
chunk is gone (it stays; give the node `memory.eviction`, or this).

Metadata and bytes lie in one entry (docs/formats/lmcache-chunk.md of the project), so that none is there
without the other. Where the node's memory is mapped here, what reads does so in the event loop itself, at
once and without a thread: one copy, from the node's memory into the memory object. What waits, puts and all
reads over a network, does so in the loop's default executor.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import json
import logging
import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import refract

if TYPE_CHECKING:
    _Base = object
else:
    try:
        from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector as _Base
    except ImportError:
        _Base = object

__all__ = ["RefractConnector"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# Mark, version, bytes of the text behind it, bytes of the data.
_FRONT = struct.Struct("<8sIIQ")
_MARK = b"refract\x07"
_VERSION = 1
_LINE_BYTES = 64
_TEXT_BYTES_MAX = 4096


def _front_bytes(text_bytes: int) -> int:
    """In whole cache lines."""
    return -(-(_FRONT.size + text_bytes) // _LINE_BYTES) * _LINE_BYTES


def front_of(shape: Sequence[int], dtype: str | None, fmt: str, data_bytes: int) -> bytes:
    """What stands in front of the bytes of a chunk."""
    about = {"dtype": dtype, "fmt": fmt, "shape": builtins.list(shape)}
    text = json.dumps(about, sort_keys=True, separators=(",", ":")).encode()
    front = _FRONT.pack(_MARK, _VERSION, len(text), data_bytes) + text
    return front.ljust(_front_bytes(len(text)), b"\0")


def parse_front(value: memoryview) -> tuple[int, builtins.list[int], str | None, str]:
    """Bytes of the front, shape, dtype and format. Raises ValueError: it is no chunk."""
    if len(value) < _FRONT.size:
        raise ValueError(f"{len(value)} bytes are no chunk")
    mark, version, text_bytes, data_bytes = _FRONT.unpack_from(value)
    if mark != _MARK or version != _VERSION:
        raise ValueError("a value that is no chunk, or of another version")
    front_bytes = _front_bytes(text_bytes)
    if text_bytes > _TEXT_BYTES_MAX or front_bytes + data_bytes != len(value):
        raise ValueError("a chunk whose lengths do not fit")
    about = json.loads(bytes(value[_FRONT.size : _FRONT.size + text_bytes]))
    if not isinstance(about, dict) or about.keys() != {"dtype", "fmt", "shape"}:
        raise ValueError("a chunk whose metadata are others")
    shape, dtype, fmt = about["shape"], about["dtype"], about["fmt"]
    is_shape = isinstance(shape, builtins.list) and all(type(each) is int and each >= 0 for each in shape)
    if not is_shape or not isinstance(fmt, str) or not (dtype is None or isinstance(dtype, str)):
        raise ValueError("a chunk whose metadata are of other types")
    return front_bytes, shape, dtype, fmt


def _dtype_of(name: str | None) -> Any:
    torch: Any = importlib.import_module("torch")
    dtype = None if name is None else getattr(torch, name, None)
    if name is not None and not isinstance(dtype, torch.dtype):
        raise ValueError(f"torch has no type {name!r}")
    return dtype


def _bytes_of(memory: Any, offset: int = 0) -> Any:
    """As an array of numpy, whose copies let go of the interpreter's lock."""
    numpy: Any = importlib.import_module("numpy")
    if memoryview(memory).nbytes == offset:
        return numpy.empty(0, "u1")
    return numpy.frombuffer(memory, "u1", offset=offset)


class RefractConnector(_Base):
    """RemoteConnector over a node; see the text of the module.

    Raises Unavailable, InvalidArgument, AccessDenied; LMCache tries it again after a while. Its calls raise
    refract.Error, which LMCache takes for a chunk that is not there.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, local_cpu_backend: Any, config: Any = None) -> None:
        super().__init__()
        extra = getattr(config, "extra_config", None) or {}
        self.loop = loop
        self.local_cpu_backend = local_cpu_backend
        self._prefix = str(extra.get("refract_prefix", "lmcache/"))
        self._ttl: float | None = extra.get("refract_ttl")
        self._client = refract.connect(
            extra.get("refract_address", ""),
            secret_file=extra.get("refract_secret_file", ""),
            timeout=float(extra.get("refract_timeout", 5.0)),
        )
        self._is_direct = self._client.route().is_direct

    def _name(self, key: Any) -> str:
        return self._prefix + str(key.to_string())

    async def _apart(self, call: Callable[..., _T], *words: Any) -> _T:
        """In a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, call, *words)

    async def _read(self, call: Callable[..., _T], *words: Any) -> _T:
        if self._is_direct:
            return call(*words)
        return await self._apart(call, *words)

    async def _write(self, call: Callable[..., None], *words: Any) -> None:
        """In a thread, and does not end before it does, also where it is cancelled: it reads the caller's
        memory."""
        task = asyncio.get_running_loop().run_in_executor(None, call, *words)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        error_of_it = task.exception()
        if cancelled is not None:
            raise cancelled
        if error_of_it is not None:
            raise error_of_it

    async def exists(self, key: Any) -> bool:
        """Whether a chunk is there."""
        return await self._read(self._client.exists, self._name(key))

    def exists_sync(self, key: Any) -> bool:
        """The same, from another thread than the loop's."""
        return self._client.exists(self._name(key))

    async def get(self, key: Any) -> Any:
        """A memory object with a chunk; None: it is not there, or there is no room for it here."""
        view = await self._read(self._client.view, self._name(key), None)
        if view is None:
            return None
        with view:
            return self._taken(view)

    def _taken(self, view: refract.View) -> Any:
        with memoryview(view) as value:
            try:
                front_bytes, shape, dtype, fmt = parse_front(value)
                kinds: Any = importlib.import_module("lmcache.v1.memory_management").MemoryFormat
                torch: Any = importlib.import_module("torch")
                wanted = torch.Size(shape), _dtype_of(dtype), kinds[fmt]
                if dtype is not None and math.prod(shape) * wanted[1].itemsize != len(value) - front_bytes:
                    raise ValueError(f"{len(value) - front_bytes} bytes are no {dtype} of shape {shape}")
            except (ValueError, KeyError, RecursionError) as error:
                _log.warning("a chunk is passed over: %s", error)
                return None
        taken = self.local_cpu_backend.allocate(*wanted)
        if taken is None:
            _log.warning("no memory for a chunk of %d bytes", len(view))
            return None
        try:
            source, target = _bytes_of(view, front_bytes), _bytes_of(taken.byte_array)
            if source.nbytes != target.nbytes:
                raise ValueError(f"it has {source.nbytes} bytes, its memory object {target.nbytes}")
            target[:] = source
        except ValueError as error:
            taken.ref_count_down()
            _log.warning("a chunk is passed over: %s", error)
            return None
        except BaseException:
            taken.ref_count_down()
            raise
        return taken

    def support_batched_get(self) -> bool:
        """True."""
        return True

    async def batched_get(self, keys: Sequence[Any]) -> builtins.list[Any]:
        """get() of each."""
        return await self._get_each(keys, is_prefix=False)

    def support_batched_get_non_blocking(self) -> bool:
        """True."""
        return True

    async def batched_get_non_blocking(self, lookup_id: str, keys: Sequence[Any]) -> builtins.list[Any]:
        """Memory objects of the chunks, from the first one on to the first that is not there."""
        return await self._get_each(keys, is_prefix=True)

    async def _get_each(self, keys: Sequence[Any], is_prefix: bool) -> builtins.list[Any]:
        taken: builtins.list[Any] = []
        try:
            for key in keys:
                one = await self.get(key)
                if one is None and is_prefix:
                    break
                taken.append(one)
                # Others have their turn between two chunks.
                await asyncio.sleep(0)
        except BaseException:
            for one in taken:
                if one is not None:
                    one.ref_count_down()
            raise
        return taken

    async def put(self, key: Any, memory_obj: Any) -> None:
        """Stores a chunk. Its references are not counted down: LMCache's wrapper of connectors does it."""
        await self._write(self._store, [(self._name(key), memory_obj)])

    def support_batched_put(self) -> bool:
        """True."""
        return True

    async def batched_put(self, keys: Sequence[Any], memory_objs: Sequence[Any]) -> None:
        """put() of each. All are tried; raises the first error."""
        await self._write(self._store, builtins.list(zip(map(self._name, keys), memory_objs, strict=True)))

    def _store(self, chunks: builtins.list[tuple[str, Any]]) -> None:
        first: refract.Error | None = None
        for name, memory_obj in chunks:
            try:
                self._store_one(name, memory_obj)
            except refract.Error as error:
                first = first or error
        if first is not None:
            raise first

    def _store_one(self, name: str, memory_obj: Any) -> None:
        data = _bytes_of(memory_obj.byte_array)
        dtype = memory_obj.get_dtype()
        kind = None if dtype is None else str(dtype).removeprefix("torch.")
        front = front_of(memory_obj.get_shape(), kind, memory_obj.get_memory_format().name, data.nbytes)
        # Where the node takes it from without another copy.
        with self._client.reserve(len(front) + data.nbytes) as room:
            place = _bytes_of(room)
            place[: len(front)] = _bytes_of(front)
            place[len(front) :] = data
            del place
            self._client.put(name, room, ttl=self._ttl)

    def support_batched_async_contains(self) -> bool:
        """True."""
        return True

    async def batched_async_contains(self, lookup_id: str, keys: Sequence[Any], pin: bool = False) -> int:
        """How many chunks are there, from the first one on. Nothing is pinned: a get holds what it reads."""
        return await self._read(self._client.prefix_exists, [self._name(key) for key in keys])

    async def list(self) -> builtins.list[str]:
        """The keys of all chunks. Looks at all keys of the node."""
        return await self._apart(self._listed)

    def _listed(self) -> builtins.list[str]:
        return [key.decode().removeprefix(self._prefix) for key in self._client.scan(self._prefix)]

    def remove_sync(self, key: Any) -> bool:
        """Erases a chunk. False: it is not there."""
        try:
            self._client.erase(self._name(key))
        except refract.NotFound:
            return False
        return True

    def support_ping(self) -> bool:
        """True."""
        return True

    async def ping(self) -> int:
        """0: the server answers."""
        try:
            await self._apart(self._client.ping)
        except refract.Error as error:
            _log.warning("%s", error)
            return -1
        return 0

    async def close(self) -> None:
        """Also a second time. Calls that wait end with an error."""
        self._client.close()
