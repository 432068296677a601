# SPDX-License-Identifier: Apache-2.0
"""The objects of a node by the names of pyarrow.plasma, which Arrow 12 removed.

    from refract import plasma                       # Was: from pyarrow import plasma

    client = plasma.connect("/run/refract/node.sock")
    object_id = client.put([1, 2, numpy.ones(1_000_000)])
    client.get(object_id)

docs/python.md lists what differs. The store is a node: refractd --objects-limit 2GiB.
"""

from __future__ import annotations

import abc
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import refract
from refract import objects
from refract._refract import Buffer, NewObject

__all__ = [
    "ObjectID",
    "ObjectNotAvailable",
    "PlasmaBuffer",
    "PlasmaClient",
    "PlasmaObjectExists",
    "PlasmaObjectNonexistent",
    "PlasmaObjectNotFound",
    "PlasmaStoreFull",
    "connect",
    "make_object_id",
    "start_plasma_store",
]

# The errors of refract by the names of Plasma: what is caught by one is caught by the other.
PlasmaObjectExists = refract.Exists
PlasmaObjectNonexistent = refract.NotFound
PlasmaObjectNotFound = refract.NotFound
PlasmaStoreFull = refract.NoSpace

ID_BYTES = 20
# How often connect() tries, and how long it waits in between, as Plasma's client did.
TRIES = 50
PAUSE_S = 0.1
# Plasma did not wait for readers to let go. The node removes what is not held in steps, which takes a moment.
ROOM_TIMEOUT_S = 1.0


class ObjectID:
    """The name of an object: 20 bytes."""

    __slots__ = ("_bytes",)

    def __init__(self, object_id: bytes) -> None:
        if not isinstance(object_id, bytes) or len(object_id) != ID_BYTES:
            raise ValueError(f"an ObjectID is made of {ID_BYTES} bytes, not of {object_id!r}")
        self._bytes = object_id

    @staticmethod
    def from_random() -> ObjectID:
        """One that no other program draws: 160 random bits."""
        return ObjectID(secrets.token_bytes(ID_BYTES))

    def binary(self) -> bytes:
        """Its 20 bytes."""
        return self._bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectID) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"ObjectID({self._bytes.hex()})"

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return make_object_id, (self._bytes,)


def make_object_id(object_id: bytes) -> ObjectID:
    """The ObjectID of these 20 bytes; what pickle calls."""
    return ObjectID(object_id)


class ObjectNotAvailable:
    """Stands for an object that was not there in time: `get` returns the class itself."""


class PlasmaBuffer(abc.ABC):
    """What create() and get_buffers() return: a buffer with `size`, `is_mutable` and `to_pybytes()`."""


PlasmaBuffer.register(Buffer)
PlasmaBuffer.register(NewObject)


class PlasmaClient:
    """A connection to a node, with the calls of pyarrow.plasma.PlasmaClient. connect() makes one.

    Times are milliseconds; -1 waits without an end. Any thread may call.
    """

    def __init__(self, client: objects.Client) -> None:
        self._client = client
        self._new: dict[ObjectID, NewObject] = {}
        self._subscription: objects.Subscription | None = None

    @property
    def store_socket_name(self) -> str:
        """As connect() was given it."""
        return self._client.address

    def create(self, object_id: ObjectID, data_size: int, metadata: bytes = b"") -> NewObject:
        """A buffer to fill, which seal() makes an object. Raises PlasmaObjectExists, PlasmaStoreFull."""
        new = self._client.create(
            _binary(object_id), data_size, metadata=metadata, room_timeout=ROOM_TIMEOUT_S
        )
        self._new[object_id] = new
        return new

    def create_and_seal(self, object_id: ObjectID, data: bytes, metadata: bytes = b"") -> None:
        """An object of these bytes. Raises PlasmaObjectExists, PlasmaStoreFull."""
        self._client.put(
            _binary(object_id), data, metadata=metadata, room_timeout=ROOM_TIMEOUT_S
        )

    def seal(self, object_id: ObjectID) -> None:
        """From now on every process finds what create() of this client began.

        Raises PlasmaObjectNonexistent where this client is not making it.
        """
        self._making(object_id).seal()
        self._new.pop(object_id, None)

    def abort(self, object_id: ObjectID) -> None:
        """Gives back what create() of this client began."""
        self._making(object_id).abort()
        self._new.pop(object_id, None)

    def get_buffers(
        self, object_ids: Iterable[ObjectID], timeout_ms: int = -1, with_meta: bool = False
    ) -> list[Any]:
        """The objects as buffers, None for what did not come in time; with_meta: (metadata, buffer)."""
        found = self._found(object_ids, timeout_ms)
        if not with_meta:
            return list(found)
        return [(None, None) if each is None else (each.metadata, each) for each in found]

    def get_metadata(self, object_ids: Iterable[ObjectID], timeout_ms: int = -1) -> list[Buffer | None]:
        """The metadata of the objects as buffers, None for what did not come in time."""
        return [
            None if each is None else each.metadata_buffer()
            for each in self._found(object_ids, timeout_ms)
        ]

    def put_raw_buffer(
        self,
        value: Any,
        object_id: ObjectID | None = None,
        metadata: bytes = b"",
        memcopy_threads: int = 6,
    ) -> ObjectID:
        """An object of any C-contiguous buffer. The node decides how many threads copy."""
        target = object_id or ObjectID.from_random()
        self._client.put(
            _binary(target), value, metadata=metadata, room_timeout=ROOM_TIMEOUT_S
        )
        return target

    def put(
        self,
        value: Any,
        object_id: ObjectID | None = None,
        memcopy_threads: int = 6,
        serialization_context: None = None,
    ) -> ObjectID:
        """An object of any Python value that pickle takes. The node decides how many threads copy."""
        _refuse_context(serialization_context)
        target = object_id or ObjectID.from_random()
        self._client.put_value(_binary(target), value, room_timeout=ROOM_TIMEOUT_S)
        return target

    def get(
        self,
        object_ids: ObjectID | Sequence[ObjectID],
        timeout_ms: int = -1,
        serialization_context: None = None,
    ) -> Any:
        """The values that put() was given, ObjectNotAvailable for what did not come in time.

        Of one id the value, of a sequence a list. Arrays lie in the store's memory, read-only. This is
        pickle: what is read can have any code run.
        """
        _refuse_context(serialization_context)
        if isinstance(object_ids, Sequence):
            return [
                ObjectNotAvailable if each is None else each.value()
                for each in self._found(object_ids, timeout_ms)
            ]
        return self.get([object_ids], timeout_ms)[0]

    def contains(self, object_id: ObjectID) -> bool:
        """Whether it is there, sealed."""
        return self._client.contains(_binary(object_id))

    def hash(self, object_id: ObjectID) -> bytes:
        """8 bytes that depend on all bytes of data and metadata; of no object no bytes."""
        try:
            return self._client.digest(_binary(object_id))[:8]
        except refract.NotFound:
            return b""

    def evict(self, num_bytes: int) -> int:
        """Gives back so many bytes of objects that are not held, if there are so many. Returns how many."""
        return self._client.evict(num_bytes)

    def delete(self, object_ids: Iterable[ObjectID]) -> None:
        """Frees the ids now, and the memory with its last holder. What is not there is passed over."""
        for object_id in object_ids:
            with contextlib.suppress(refract.NotFound):
                self._client.delete(_binary(object_id))

    def subscribe(self) -> None:
        """Begins what get_next_notification() continues."""
        self._subscription = self._client.subscribe()

    def get_next_notification(self) -> tuple[ObjectID, int, int]:
        """Waits for the next seal or removal: id and both sizes, which are -1 of a removal."""
        if self._subscription is None:
            raise refract.InvalidArgument("there is no subscription\n  call subscribe() first")
        while True:
            notice = self._subscription.next()
            if notice is None or notice.kind == "missed" or len(notice.id) != ID_BYTES:
                continue
            if notice.kind == "removed":
                return ObjectID(notice.id), -1, -1
            return ObjectID(notice.id), notice.size, notice.metadata_size

    def get_notification_socket(self) -> socket.socket:
        _refuse("get_notification_socket()", "call get_next_notification() in a thread")

    def decode_notifications(self, buf: bytes) -> NoReturn:
        _refuse("decode_notifications()", "call get_next_notification() in a thread")

    def to_capsule(self) -> NoReturn:
        _refuse("to_capsule()", "connect in C++ by refract/client/objects.h")

    def set_client_options(self, client_name: str, limit_output_memory: int) -> None:
        """Does nothing: a node has no shares for each client."""

    def debug_string(self) -> str:
        """What the node says of its objects."""
        return str(self._client.stat())

    def store_capacity(self) -> int:
        """How many bytes all objects of the node may have together: its --objects-limit."""
        return self._client.stat().limit

    def disconnect(self) -> None:
        """Ends the connection and what was being made. Buffers and arrays stay good."""
        self._new.clear()
        self._client.close()

    def _making(self, object_id: ObjectID) -> NewObject:
        _binary(object_id)
        new = self._new.get(object_id)
        if new is None:
            raise refract.NotFound(f"{object_id} is not being made by this client\n  create() begins it")
        return new

    def _found(self, object_ids: Iterable[ObjectID], timeout_ms: int) -> list[objects.Object | None]:
        timeout = None if timeout_ms < 0 else timeout_ms / 1000
        found = self._client.get_many([_binary(each) for each in object_ids], timeout)
        for each in found:
            if isinstance(each, Exception):
                raise each
        return [each for each in found if not isinstance(each, Exception)]

    # The last one: below it `list` is this.
    def list(self) -> dict[ObjectID, dict[str, Any]]:
        """What is there, by id: data_size, metadata_size, ref_count, state ('created' or 'sealed')."""
        return {
            ObjectID(each.id): {
                "data_size": each.size,
                "metadata_size": each.metadata_size,
                "ref_count": each.holders or 0,
                "create_time": 0,
                "construct_duration": 0,
                "state": "sealed" if each.is_sealed else "created",
            }
            for each in self._client.list(all=True)
            if len(each.id) == ID_BYTES
        }


def connect(store_socket_name: str, num_retries: int = -1) -> PlasmaClient:
    """Connects to the node at this socket; num_retries: how often it is tried, -1: 50 times, in 5 s."""
    tries = TRIES if num_retries < 0 else max(1, num_retries)
    for left in range(tries - 1, -1, -1):
        try:
            return PlasmaClient(objects.connect(store_socket_name))
        except refract.Unavailable:
            if left == 0:
                raise
            time.sleep(PAUSE_S)
    raise AssertionError("the last try returns or raises")


@contextlib.contextmanager
def start_plasma_store(
    plasma_store_memory: int,
    use_valgrind: bool = False,
    use_profiler: bool = False,
    plasma_directory: str | None = None,
    use_hugepages: bool = False,
    external_store: str | None = None,
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A node of its own for the time of a `with`: yields its socket and its process.

    The program is $REFRACTD, else refractd beside the package's build, else the one on $PATH.
    """
    if use_valgrind or use_profiler or plasma_directory or use_hugepages or external_store:
        _refuse("an option of start_plasma_store()", "start refractd by yourself: refractd --help")
    with tempfile.TemporaryDirectory(prefix="refract-plasma-") as folder:
        name = os.path.join(folder, "plasma.sock")
        command = [_refractd(), "--config", "/dev/null", "--socket-path", name]
        command += ["--objects-limit", str(plasma_store_memory)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(name):
                if process.poll() is not None:
                    raise RuntimeError(f"refractd ended with code {process.returncode}")
                time.sleep(0.01)
            yield name, process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()


def _refractd() -> str:
    beside = os.path.join(os.path.dirname(__file__), "..", "..", "bin", "refractd")
    found = os.environ.get("REFRACTD") or shutil.which(beside) or shutil.which("refractd")
    if found is None:
        raise FileNotFoundError("there is no refractd\n  set $REFRACTD to its path, or put it on $PATH")
    return found


def _binary(object_id: ObjectID) -> bytes:
    if not isinstance(object_id, ObjectID):
        raise TypeError(f"an ObjectID is needed, not {type(object_id).__name__!r}")
    return object_id.binary()


def _refuse(what: str, instead: str) -> NoReturn:
    raise refract.Unsupported(f"{what}: refract has nothing like it\n  {instead}")


def _refuse_context(context: None) -> None:
    if context is not None:
        _refuse("serialization_context", "register the type with copyreg or give it __reduce__")
