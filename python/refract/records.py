# SPDX-License-Identifier: Apache-2.0
"""What calls return that is more than one value."""

from __future__ import annotations

from typing import NamedTuple


class Listed(NamedTuple):
    """An object, as list() has it."""

    id: bytes
    birth: int
    size: int
    metadata_size: int
    is_kept: bool
    is_sealed: bool
    holders: int | None  # Of list(all=True) alone.


class Notice(NamedTuple):
    """What happened to an object, as a Subscription has it.

    kind: 'there' (was sealed before), 'sealed', 'removed' (by a program, or evicted), or 'missed': notices
    were lost, no object is named, and all that are there follow.
    """

    kind: str
    id: bytes
    birth: int
    size: int
    metadata_size: int


class Places(NamedTuple):
    """Which nodes have an object, by their names; those that get it just now are the last."""

    birth: int
    size: int
    metadata_size: int
    nodes: list[str]
    copies_wanted: int  # On different nodes, and never evicted. 0: none.
    copies: int  # So many of these there are, on nodes that can be reached.


class Copies(NamedTuple):
    """How many copies of an object there are on different nodes, as set_copies() has it."""

    birth: int
    wanted: int  # Another number than was asked for: another program has changed it since.
    copies: int  # So many there are, on nodes that can be reached.


class BroadcastNode(NamedTuple):
    """What has become of an object at a node to which it was to be brought, as broadcast() has it."""

    node: str
    error: Exception | None  # None: it has a copy.


class Broadcast(NamedTuple):
    """To which nodes an object was brought, as broadcast() has it."""

    nodes: list[BroadcastNode]  # As they were named, or as the list of nodes has them.
    missed: int  # So many did not get it.
    untold: int  # Of so many more there was no room to say what has become of it.


class RankedNode(NamedTuple):
    """What one node lacks of some objects, and about how long it would take to get it, as rank() has it."""

    node: str
    error: Exception | None  # NoSpace: all are more than its limit. Else nothing is known of it: all is 0.
    missing_objects: int
    missing_bytes: int
    seconds: float  # By its paths to those that have them.
    is_guessed: bool  # Not all of these paths were measured by pulls.
    unreachable_objects: int  # Of the missing ones: it reaches no node that has them. Not in the seconds.


class Rank(NamedTuple):
    """The nodes by the time in which they could have some objects, as rank() has it."""

    nodes: list[RankedNode]  # The quickest first.
    errors: list[Exception | None]  # Of each id, in their order. Those with an error do not count.


class Stat(NamedTuple):
    """Of all objects of a node; bytes are those of bodies and metadata, which is what the limit counts.

    What is held may be some 10 ms old.
    """

    limit: int
    used: int  # sealed_bytes, creation_bytes and removed_bytes together.
    sealed_bytes: int
    creation_bytes: int  # Of objects that are being made.
    removed_bytes: int  # Of objects without an id, which are held still.
    held_bytes: int  # Of sealed ones that are held.
    kept_bytes: int
    objects: int  # Sealed.
    creations: int
    removed: int  # And held still.
    held: int
    sealed_ever: int
    removed_ever: int
    evicted_ever: int
    evicted_bytes_ever: int
    aborted_ever: int


class Versioned(NamedTuple):
    """A value with its version, as get_versioned() has it."""

    value: bytes
    version: int


class Pong(NamedTuple):
    """A sign of life of the server, as ping() has it."""

    seconds: float  # There and back.
    node_time: float  # Of the store, in seconds since 1970.


class Route(NamedTuple):
    """By what way a thread reaches its node, and why."""

    transport: str  # "shm", "verbs" or "tcp".
    address: str
    device: str  # verbs: this host's. Else empty.
    shards: int  # Of the node.
    is_direct: bool  # Gets take nothing of the server.
    reason: str  # Why they do, or do not.
    server: str  # "serving", "restarting" and so on.
    server_pid: int  # As the node sees it.
    text: str  # All of it, for people.
