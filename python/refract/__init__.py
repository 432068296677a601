# SPDX-License-Identifier: Apache-2.0
"""Refract for Python: large data that processes share without a copy.

    from refract import objects

    client = objects.connect()                       # The node of `refractd --objects-limit 2GiB`.
    client.put("numbers", numpy.arange(1_000_000))   # Any C-contiguous buffer.

    held = client.get("numbers", timeout=5)          # In another process: waits for it, copies nothing.
    numbers = numpy.frombuffer(held, dtype=int)      # Read-only, in the store's memory.

`refract.objects` has the objects of a node, `refract.plasma` the same by the names of pyarrow.plasma. Every
error is a subclass of `refract.Error`, says what was wrong and what to do, and has the name of its `code`:
`NotFound` is a KeyError too, `InvalidArgument` a ValueError, `Unavailable` and `Away` are ConnectionErrors.
`Indeterminate` says that a call may or may not have been done; nothing here repeats it by itself.
"""

from refract._refract import (
    AccessDenied,
    Away,
    Buffer,
    Cancelled,
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
    SystemRefused,
    TooLarge,
    Unavailable,
    Unsupported,
    VersionMismatch,
    WrongShard,
)

__all__ = [
    "AccessDenied",
    "Away",
    "Buffer",
    "Cancelled",
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
    "ReadOnly",
    "SystemRefused",
    "TooLarge",
    "Unavailable",
    "Unsupported",
    "VersionMismatch",
    "WrongShard",
]
