# SPDX-License-Identifier: Apache-2.0
"""The state of the small world of transactions_nodes_model.py, and what deaths make of it."""
from typing import NamedTuple

# A node. STARTS: its memory was kept, nothing is taken up yet; EMPTY: so, but the memory is new.
UP, STARTS, EMPTY = "up", "starts", "is empty"

# The word. LATER: it has committed a later number of the same range, of a transaction inside A; GIVEN: it has
# been given out again, for a later range; FRESH: it is one of a new memory.
OPEN, UNCONFIRMED, COMMITTED, NEVER, LATER, GIVEN, FRESH = (
    "open", "unconfirmed", "committed", "never", "committed for a later number", "given", "fresh")
HAPPENED = "happened"

# The client.
IDLE, PREPARES, MAY_DECIDE, DECIDES, ASKS, YES, NO, UNKNOWN = (
    "idle", "prepares", "may decide", "has asked to decide", "asks for the outcome", "was told yes",
    "was told no", "was told unknown")
ENDED = (YES, NO, UNKNOWN)

# Records of logs.
PREPARED, DECIDED, FORGOTTEN, IN_Y, IN_Z = "prepared", "decided", "forgotten", "put y", "put z"


# `records` of which `synced` outlive the host. Without a log there are none.
class Log(NamedTuple):
    records: tuple = ()
    synced: int = 0

    def plus(self, *records):
        return self._replace(records=self.records + records)

    def is_synced(self):
        return self.synced == len(self.records)

    def cut(self):
        return self._replace(records=self.records[:self.synced])


# A has x, the word and the client's word session; B has y, z, and the part. `y`: what was written, in order.
# Messages: "" or what they say. `held`: an answer that waits for the log.
class State(NamedTuple):
    client: str = IDLE
    session_a: bool = True
    session_b: bool = True
    prepare: str = ""
    prepared: str = ""
    decide: str = ""
    decided: str = ""
    tell: str = ""

    node_a: str = UP
    log_a: Log = Log()
    word: str = OPEN
    x: bool = False
    label: bool = True  # The name that the client uses has the identity of the home's memory.
    listed: bool = False  # In a new memory: a decision of the one before, which is not forgotten.
    is_gone: bool = False  # B has said that it has no such part.
    gone: str = ""

    node_b: str = UP
    log_b: Log = Log()
    part: bool = False
    marks: bool = False
    record: bool = False  # Of the marks, in the heap.
    y: tuple = ()
    rest: bool = False  # Another key of the part has the transaction, too.
    fate: str = ""  # In the part's record: stored before the first of its keys is settled.
    z: bool = False
    demand: str = ""
    look: str = ""

    reader: str = ""  # Then where it is; what it has seen is in `seen`.
    seen: tuple = ()
    put: str = ""
    other: bool = False  # A has a part of another transaction, whose home is B, and which is not decided.
    adopted_a: bool = False
    adopted_b: bool = False
    demanded: bool = False  # Anything that may end the transaction has been.
    kills: int = 0
    breaks: int = 0


def without_session_a(s):
    client = ASKS if s.client == DECIDES else s.client
    return s._replace(session_a=False, client=client, decide="", decided="", demanded=True)


def without_session_b(s):
    return s._replace(session_b=False, prepare="", prepared="", tell="", demanded=True)


def without_a(s, memory):
    s = without_session_a(s)._replace(is_gone=False, gone="", node_a=STARTS)
    if memory:
        return s._replace(adopted_a=s.other)
    return s._replace(node_a=EMPTY, log_a=s.log_a.cut())


def without_b(s, memory):
    s = without_session_b(s)._replace(
        node_b=STARTS, marks=False, demand="", look="", gone="",
        reader="failed" if s.reader in ("looks", "waits") else s.reader,
        put="unknown" if s.put == "held" else s.put)
    return s if memory else s._replace(node_b=EMPTY, log_b=s.log_b.cut(), part=False, record=False, fate="")
