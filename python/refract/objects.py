# SPDX-License-Identifier: Apache-2.0
"""Objects: bytes that are made once, never change, and are read by any number of processes without a copy.

    from refract import objects

    client = objects.connect()
    client.put("a", b"some bytes")                   # Or a bytearray, a memoryview, a numpy array.
    client.put_value("b", {"weights": array})        # Any Python object, by pickle.
    with client.create("c", 1 << 30) as new:         # Memory to fill; sealed at the end.
        numpy.frombuffer(new, dtype="f4")[:] = 1

    bytes(client.get("a"))                           # A copy; memoryview(client.get("a")) is none.
    client.get_value("b")["weights"]                 # In the store's memory, read-only.
    client.get("d", timeout=None)                    # Waits until some process has made it.

On the node's host a get costs microseconds whatever the size, also while the server is stopped. What it
returns holds the object: the bytes stay until the last array over them is gone, also when the object was
deleted, the client closed and the server killed. Over a network a get has a copy.

What waits, and what copies more than 64 KiB, does so without the lock of the interpreter. Arrays that were
made before a fork hold nothing in the child: there they are good only as long as the parent has them.
"""

from __future__ import annotations

import os

from refract._refract import Buffer, NewObject, Object, Subscription, connect_objects
from refract._refract import ObjectsClient as Client
from refract.records import (
    Broadcast,
    BroadcastNode,
    Copies,
    Listed,
    Notice,
    Places,
    Rank,
    RankedNode,
    Stat,
)

__all__ = [
    "Broadcast",
    "BroadcastNode",
    "Buffer",
    "Client",
    "Copies",
    "Listed",
    "NewObject",
    "Notice",
    "Object",
    "Places",
    "Rank",
    "RankedNode",
    "Stat",
    "Subscription",
    "connect",
]


def connect(
    address: str | os.PathLike[str] = "",
    *,
    secret_file: str | os.PathLike[str] = "",
    timeout: float = 5.0,
) -> Client:
    """Connects to a node, and returns a Client of its objects.

    address: the path of a node's socket, or "refract://host:port"; empty: this user's default socket.
    secret_file: what a node on another host asks for; empty: what $REFRACT_SECRET_FILE names.
    timeout: how many seconds one call may take, beyond the time that it was given to wait.
    Raises Unavailable, Unsupported (the node has no objects), InvalidArgument.
    """
    return connect_objects(address, secret_file=secret_file, timeout=timeout)
