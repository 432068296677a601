# SPDX-License-Identifier: Apache-2.0
"""The owner's turns and its recovery, a store a step, in the small world of numbered_writes_model.py."""
from numbered_writes_state import CHANGED, UNCHANGED, Entry, Record, Turn
from schedules import Broken

CHANGE = ("record", "log", "slot", "mark", "split", "clear", "answer")
# Stores in another order.
ORDERS = {
    "number first": ("number", "record", "log", "slot", "mark", "split", "clear", "answer"),
    "log first": ("log", "record", "slot", "mark", "split", "clear", "answer"),
    "slot first": ("log", "slot", "record", "mark", "split", "clear", "answer"),
    "slot before log": ("record", "slot", "log", "mark", "split", "clear", "answer"),
    "mark before slot": ("record", "log", "mark", "slot", "split", "clear", "answer"),
    "mark behind the split": ("record", "log", "slot", "split", "clear", "mark", "answer"),
    "no mark": ("record", "log", "slot", "split", "clear", "answer"),
}
PLAIN = ("look", "log", "slot", "split", "clear", "answer")


class Owner:
    def __init__(self, broken, operations, has_log=False, is_always=False, all_may_die=False):
        self.broken = broken
        self.operations = operations  # Of numbers 1, 2, ...
        self.has_log = has_log
        self.is_always = is_always
        self.all_may_die = all_may_die

    # --- Between two turns ---

    def owner_begins(self, s):
        if s.calls:
            yield from self.takes_call(s)
        if s.server.waiting:
            waiting = s.server.waiting
            yield "what waited continues", self.begun(s.at_server(waiting=()), *waiting)
        if s.plain in ("put", "erase"):
            yield "another writer's call", s._replace(plain="under way").at_server(
                turn=Turn(f"plain {s.plain}", PLAIN)
            )
        if s.evictions and s.memory.entry():
            turn = Turn("eviction", ("look", "log", "slot"))
            yield "the owner evicts", s._replace(evictions=s.evictions - 1).at_server(turn=turn)

    def takes_call(self, s):
        (connection, number, place), rest = s.calls[0], s.calls[1:]
        left = s._replace(calls=rest)
        if connection != s.server.connection and self.broken != "ended calls run":
            yield f"a call of an ended connection, of {number}, is dropped", left
            return
        if place >= 0:
            yield f"the owner frees the place of {number}", self.acknowledged(
                left, connection, number, place
            )
            return
        yield f"the owner takes {number}", self.begun(left, connection, number)
        if s.waits and not s.server.waiting:
            yield f"{number} waits", left._replace(waits=s.waits - 1).at_server(
                waiting=(connection, number)
            )

    # The client hears of it, unless it has lost that connection.
    def acknowledged(self, s, connection, number, place):
        memory = s.memory
        if self.broken == "acknowledged by place":
            memory = memory.without_place(place)
        elif any((record.number, record.place) == (number, place) for record in memory.records):
            memory = memory.without_record(number)
        owed = s.owed
        if connection == s.connection:
            owed = tuple(one for one in owed if one[0] != number)
        return s._replace(memory=memory, owed=owed)

    def begun(self, s, connection, number):
        steps = ("buffer", "look")
        if self.broken == "look first":
            steps = ("look", "buffer")
        turn = Turn("numbered", steps, number=number, answer=(connection,))
        return s.at_server(turn=turn)

    # --- Steps of a turn ---

    def turn_steps(self, s):
        turn = s.server.turn
        step, rest = turn.steps[0], turn.steps[1:]
        left = s.at_server(turn=turn._replace(steps=rest) if rest else None)
        if turn.kind == "recovery":
            yield self.recovery_step(s, left, step)
        elif step == "buffer":
            yield from self.takes_buffer(left)
        elif step == "look":
            yield "the owner looks", self.looks(left, turn._replace(steps=rest))
        elif step == "evicts: log":
            yield "the log has the eviction", self.appended(left, s.memory.stamp, 0, 0)
        elif step == "evicts: slot":
            yield "what was evicted leaves its slot", self.stored(left, s.memory.bucket(), 0)
        else:
            yield getattr(self, step)(left, turn)

    # It may take away the key that it is for.
    @staticmethod
    def takes_buffer(s):
        yield "the owner has a buffer", s
        if s.evictions and s.memory.entry():
            turn = s.server.turn
            steps = ("evicts: log", "evicts: slot", *turn.steps)
            yield "the owner evicts the key for its buffer", s._replace(
                evictions=s.evictions - 1
            ).at_server(turn=turn._replace(steps=steps))

    def looks(self, s, turn):
        memory = s.memory
        old = memory.entry()
        kind = self.operations[turn.number - 1] if turn.kind == "numbered" else turn.kind
        stamp = memory.stamp
        value = {"increment": old.value + 1 if old else 1, "plain put": 50, "put if absent": 70}.get(
            kind, 0
        )
        new = Entry(stamp, value) if value else 0
        if (kind == "put if absent" and old) or (not new and not old):
            answer = (UNCHANGED, kind)
            steps = ("refuse", "answer") if turn.kind == "numbered" else ("answer",)
        else:
            answer = (CHANGED, kind, value)
            steps = turn.steps if turn.kind != "numbered" else ORDERS.get(self.broken, CHANGE)
        if turn.steps[:1] == ("buffer",):
            steps = ("buffer", *steps)
        done = turn._replace(steps=steps, looked=old, new=new, stamp=stamp, answer=(*turn.answer, answer))
        return s._replace(memory=memory._replace(stamp=stamp + 1)).at_server(turn=done)

    def record(self, s, turn):
        memory = s.memory
        record = Record(turn.number, turn.answer[1], turn.stamp, memory.bucket(), turn.looked)
        memory = memory.without_record(turn.number)
        return "record", s._replace(memory=memory.with_record(record))

    # All else of it is what the place had before.
    def number(self, s, turn):
        return "a record's number", s._replace(
            memory=s.memory.with_record(Record(turn.number, turn.answer[1]))
        )

    def refuse(self, s, turn):
        record = Record(turn.number, turn.answer[1], is_marked=True)
        if self.broken == "refusals unrecorded":
            return "nothing is recorded", s.is_decided(turn.number, turn.answer[1])
        after = s._replace(memory=s.memory.with_record(record))
        return "a record of the refusal", after.is_decided(turn.number, turn.answer[1])

    def log(self, s, turn):
        value = turn.new.value if turn.new else 0
        return "log", self.appended(s, turn.stamp, value, turn.number)

    def appended(self, s, stamp, value, number):
        memory = s.memory._replace(stamp=max(s.memory.stamp, stamp + 1))
        if self.has_log:
            memory = memory._replace(log=(*memory.log, (stamp, value, number)))
        return s._replace(memory=memory)

    def slot(self, s, turn):
        memory = s.memory
        if memory.entry() != turn.looked:
            raise Broken("computed on what is not there any more")
        after = self.stored(s, memory.bucket(), turn.new)
        if turn.number:
            after = after.has_happened(turn.number, turn.stamp, turn.answer[1])
        return "slot", after

    @staticmethod
    def stored(s, bucket, entry):
        return s._replace(memory=s.memory.with_slot(bucket, entry))

    @staticmethod
    def mark(s, turn):
        return "mark", s._replace(memory=s.memory.with_mark(turn.number))

    # Behind an insertion. What is copied and not published yet is nothing.
    @staticmethod
    def split(s, turn):
        memory = s.memory
        if turn.looked or not turn.new or memory.is_split:
            return "no split", s
        return "split", s.at_memory(slots=(memory.slots[0], memory.slots[0]), is_split=True)

    @staticmethod
    def clear(s, _):
        memory = s.memory
        return (
            "the split's old slot is cleared",
            memory.is_split and s._replace(memory=memory.with_slot(0, 0)) or s,
        )

    def answer(self, s, turn):
        if turn.kind != "numbered":
            return "the other writer is answered", s._replace(plain="done")
        connection, answer = turn.answer
        record = s.memory.record(turn.number)
        place = record.place if record else 0
        if self.broken == "dropped when answered":
            s = s._replace(memory=s.memory.without_record(turn.number))
        held = (connection, turn.number, answer, place, len(s.memory.log))
        if connection != s.server.connection:
            return "an answer that is not wanted", s
        return "the answer may leave", s.at_server(held=(*s.server.held, held))

    # --- Recovery ---

    def recovery_step(self, s, left, step):
        memory, turn = s.memory, s.server.turn
        if step == "finish split":
            return self.clear(left, None)
        if step == "decide":
            return self.decides(s, left)
        if step == "redo slot":
            return self.redoes(s, left)
        if step == "ready":
            if not memory.has_ring:  # A snapshot takes the place of the log.
                entry = memory.entry()
                log = ((entry.stamp, entry.value, 0),) if entry else ((0, 0, 0),)
                left = left.at_memory(has_ring=True, log=log, synced=1)
            return "the server is ready", left
        return getattr(self, step)(left, turn)

    def decides(self, s, left):
        memory = s.memory
        last = memory.log[-1] if memory.log and memory.has_ring else None
        record = self.record_to_decide(memory)
        if not record:
            return self.with_redo(left, last, 0)
        is_stored = memory.slots[record.bucket] != record.old and self.broken != "the log alone tells"
        is_logged = last and last[0] == record.stamp and self.broken != "the slot alone tells"
        if is_stored or self.broken == "the last is believed":
            after = left._replace(memory=memory.with_mark(record.number))
            return "recovery marks the record", self.with_redo(after, last, 0)[1]
        if is_logged:
            if self.broken == "mark before redo":
                after = left._replace(memory=memory.with_mark(record.number))
                return "recovery marks the record", self.with_redo(after, last, 0)[1]
            return self.with_redo(left, last, record.number)
        after = left._replace(memory=memory.without_record(record.number))
        return "recovery drops the record", self.with_redo(after, last, 0)[1]

    def record_to_decide(self, memory):
        record = memory.open_record()
        if self.broken == "marked ones are compared":
            changes = [one for one in memory.records if one.answer[0] == CHANGED]
            record = record or (changes[-1] if changes else None)
        return record

    # What the log's last record says, and the table lacks.
    def with_redo(self, s, last, number):
        steps = ("redo slot",) if last and self.is_behind(s.memory, last) else ()
        if number:
            steps = (*steps, "mark")
        # Clearing is of a split alone.
        steps = (*steps, "split", "clear") if steps else ()
        if self.broken == "redo splits before the mark" and number:
            steps = ("redo slot", "split", "clear", "mark")
        turn = s.server.turn if s.server.turn else Turn("recovery", ())
        new = Entry(last[0], last[1]) if last and last[1] else 0
        turn = turn._replace(steps=(*steps, "ready"), number=number, new=new, looked=s.memory.entry())
        return "recovery looks at the last record", s.at_server(turn=turn)

    @staticmethod
    def is_behind(memory, last):
        stamp, value, _ = last
        entry = memory.entry()
        return entry.stamp < stamp if entry else bool(value)

    # A put whose slot was there and has gone since is not made again: its buffer is another's by now.
    def redoes(self, s, left):
        stamp, value, number = s.memory.log[-1]
        after = self.stored(left, s.memory.bucket(), Entry(stamp, value) if value else 0)
        if number:
            answer = (CHANGED, self.operations[number - 1], value)
            after = after.has_happened(number, stamp, answer)
        return "recovery makes the last change", after
