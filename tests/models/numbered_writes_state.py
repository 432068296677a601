# SPDX-License-Identifier: Apache-2.0
"""The state of the small world of numbered_writes_model.py, and how its memory and its log change.

One shard and one key. Its slot is that of bucket 0, and behind a split that of bucket 1.
"""
from typing import NamedTuple

from schedules import Broken

# What an operation is answered. With CHANGED and UNCHANGED stands what it made or found.
CHANGED, UNCHANGED, NOT_EXECUTED, INDETERMINATE = "changed", "unchanged", "not executed", "indeterminate"


# What a slot names; 0 in place of one: the slot is free.
class Entry(NamedTuple):
    stamp: int
    value: int


# Of one numbered operation. `bucket`, `old`: which slot it stores, and what was there.
class Record(NamedTuple):
    number: int
    answer: tuple
    stamp: int = 0
    bucket: int = 0
    old: Entry | int = 0
    is_marked: bool = False
    place: int = 0


# What outlives the server. `is_known`: the session is in this memory. The log: all records since birth, of
# which the first `synced` outlive the host; `has_ring`: recovery can read its last record.
class Memory(NamedTuple):
    slots: tuple = (0, 0)
    is_split: bool = False
    records: tuple = ()
    is_known: bool = True
    stamp: int = 1
    log: tuple = ()
    synced: int = 0
    has_ring: bool = True

    def bucket(self):
        return 1 if self.is_split else 0

    def entry(self):
        return self.slots[self.bucket()]

    def with_slot(self, bucket, entry):
        slots = (entry, self.slots[1]) if bucket == 0 else (self.slots[0], entry)
        return self._replace(slots=slots)

    def record(self, number):
        return next((record for record in self.records if record.number == number), None)

    # In the first place that is free.
    def with_record(self, record):
        taken = [one.place for one in self.records]
        place = next(place for place in range(len(taken) + 1) if place not in taken)
        return self._replace(records=(*self.records, record._replace(place=place)))

    def with_mark(self, number):
        return self._replace(
            records=tuple(
                one._replace(is_marked=True) if one.number == number else one for one in self.records
            )
        )

    def without_record(self, number):
        return self._replace(records=tuple(one for one in self.records if one.number != number))

    def without_place(self, place):
        return self._replace(records=tuple(one for one in self.records if one.place != place))

    def open_record(self):
        return next((record for record in self.records if not record.is_marked), None)


# A turn of the owner, or its recovery: which steps are left of it. `looked`: what it has computed on.
class Turn(NamedTuple):
    kind: str
    steps: tuple
    number: int = 0
    looked: Entry | int = 0
    new: Entry | int = 0
    stamp: int = 0
    answer: tuple = ()


# The server's process; its connection is the one over which the session's operations are executed, 0: none.
class Server(NamedTuple):
    turn: Turn | None = None
    waiting: tuple = ()  # {connection, number}
    held: tuple = ()  # {connection, number, answer, place, position}
    connection: int = 1


# What the client knows of one operation: "new", "sent", or what it was told.
class State(NamedTuple):
    memory: Memory = Memory()
    server: Server | None = Server()
    # In their order: {connection, number, place}; an acknowledgement has the place of a record, else -1.
    calls: tuple = ()
    told: tuple = ("new",)
    owed: tuple = ()  # Acknowledgements: {number, place, whether it is under way}.
    connection: int = 1  # The client's; 0: it was lost.
    last_connection: int = 1
    plain: str = ""  # The other writer's: what it does, then "under way", "done".
    # What has happened: the first answer of each number, in the order of their moments; each {number, stamp}.
    decided: tuple = ()
    effects: tuple = ()
    kills: int = 1
    breaks: int = 1
    evictions: int = 0
    waits: int = 0
    ring_losses: int = 0

    def at_memory(self, **changes):
        return self._replace(memory=self.memory._replace(**changes))

    def at_server(self, **changes):
        return self._replace(server=self.server._replace(**changes))

    def is_told(self, number, answer):
        told = list(self.told)
        told[number - 1] = answer
        return self._replace(told=tuple(told))

    # --- What has happened ---

    def decided_answer(self, number):
        return next((answer for one, answer in reversed(self.decided) if one == number), None)

    def has_effect(self, number):
        return any(one == number for one, _ in self.effects)

    def is_younger_decided(self, number):
        return any(one > number for one, _ in self.decided)

    # The moment of a refusal, or of an answer that changes nothing.
    def is_decided(self, number, answer):
        if self.decided_answer(number) and (self.has_effect(number) or self.is_younger_decided(number)):
            raise Broken(f"{number} is executed twice")
        return self._replace(decided=(*(one for one in self.decided if one[0] != number), (number, answer)))

    # The moment of a change; again by a recovery.
    def has_happened(self, number, stamp, answer):
        if (number, stamp) in self.effects:
            return self
        return self.is_decided(number, answer)._replace(effects=(*self.effects, (number, stamp)))
