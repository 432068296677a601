# SPDX-License-Identifier: Apache-2.0
"""Refract for Python: keys and values, and large data that processes share without a copy.

    import refract

    client = refract.connect()             # The node of `refractd`; or a path, or "refract://host:port".
    client.put("greeting", b"hello")       # Any C-contiguous buffer. Returns the new version.
    client.get("greeting")                 # b"hello": read from the node's memory, in under a microsecond.
    client.get("none", None)               # None; without a default it raises NotFound, a KeyError.

    client.put("job", b"1", ttl=30, if_absent=True)     # A lease of 30 seconds; Exists, where it is taken.
    client.add("visits")                                # Counts, also beside others; returns the sum.
    client.get_many(["greeting", "job"])                # In one call; an outcome for each.

    def move(t):                                        # All of it at one moment, or nothing.
        t.add("alice", -10)
        t.add("bob", 10)

    client.transaction(move)

    client.put_array("weights", numpy.zeros((1024, 1024)))      # In numpy's own form.
    client.array("weights")                             # Read-only, in the node's memory: nothing is copied.
    client.get_into("weights", bytearray(9_000_000))    # Or a tensor, or (address, bytes).
    with client.build("frame", (1080, 1920), "u1") as a:        # Put at the end, from where it was built.
        a[...] = 0

`refract.aio` has the same calls for asyncio: `client = await refract.aio.connect()`, `await client.get("a")`.

`refract.objects` has the objects of a node, which are shared without a copy:

    from refract import objects

    objects.connect().put("numbers", numpy.arange(1_000_000))   # Of `refractd --objects-limit 2GiB`.
    held = objects.connect().get("numbers", timeout=5)          # In another process: waits for it.
    numbers = numpy.frombuffer(held, dtype=int)                 # Read-only, in the store's memory.

`refract.plasma` has the same by the names of pyarrow.plasma.

Every error is a subclass of `refract.Error`, says what was wrong and what to do, and has the name of its
`code`: `NotFound` is a KeyError too, `InvalidArgument` a ValueError, `Unavailable` and `Away` are
ConnectionErrors. `Indeterminate` says that a call may or may not have been done; nothing here repeats it by
itself.
"""

from typing import TYPE_CHECKING, Any

from refract._refract import (
    AccessDenied,
    Away,
    Buffer,
    Build,
    Cancelled,
    Client,
    CompareFailed,
    Conflict,
    Corrupt,
    DeadlineExceeded,
    Error,
    Exists,
    Forked,
    Indeterminate,
    InUse,
    InvalidArgument,
    Invalidated,
    Malformed,
    NoSpace,
    NotFound,
    Overloaded,
    ReadOnly,
    Reservation,
    SystemRefused,
    TooLarge,
    Transaction,
    Unavailable,
    Unsupported,
    VersionMismatch,
    View,
    WrongShard,
    connect,
)
from refract.records import Pong, Route, Versioned

if TYPE_CHECKING:
    from refract import aio as aio

__all__ = [
    "AccessDenied",
    "Away",
    "Buffer",
    "Build",
    "Cancelled",
    "Client",
    "CompareFailed",
    "Conflict",
    "Corrupt",
    "DeadlineExceeded",
    "Error",
    "Exists",
    "Forked",
    "InUse",
    "Indeterminate",
    "InvalidArgument",
    "Invalidated",
    "Malformed",
    "NoSpace",
    "NotFound",
    "Overloaded",
    "Pong",
    "ReadOnly",
    "Reservation",
    "Route",
    "SystemRefused",
    "TooLarge",
    "Transaction",
    "Unavailable",
    "Unsupported",
    "VersionMismatch",
    "Versioned",
    "View",
    "WrongShard",
    "connect",
]


def __getattr__(name: str) -> Any:
    # asyncio takes longer to import than all of this.
    if name == "aio":
        import importlib

        return importlib.import_module("refract.aio")
    raise AttributeError(f"module 'refract' has no attribute {name!r}")
