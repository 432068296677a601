# SPDX-License-Identifier: Apache-2.0
"""The steps of the small worlds of transactions_nodes_model.py, and what must hold in them."""
from schedules import Broken
from transactions_nodes_state import (
    ASKS, COMMITTED, DECIDED, DECIDES, EMPTY, ENDED, FORGOTTEN, FRESH, GIVEN, HAPPENED, IDLE, IN_Y, IN_Z,
    LATER, MAY_DECIDE, NEVER, NO, OPEN, PREPARED, PREPARES, STARTS, UNCONFIRMED, UNKNOWN, UP, YES,
    without_a, without_b, without_session_a, without_session_b)

T, PUT = "T", "put"


class Model:
    def __init__(self, broken=None, has_logs=False, deaths=(), reads="", puts="", lies="", splits=False,
                 marks_only=False):
        self.broken = broken
        self.has_logs = has_logs
        self.deaths = deaths  # Of "a" and "b", with "kept" or "lost" memory.
        self.reads = reads  # The keys of a reader, in its order.
        self.puts = puts
        # Who tells B that it has happened, though it has not: "another" client, or its "own".
        self.lies = lies
        self.splits = splits  # A part is settled in two stores.
        self.marks_only = marks_only  # It writes nothing in B: then its home asks nothing before it forgets.

    @staticmethod
    def world(s):
        return s

    @staticmethod
    def is_quiet(s):
        is_over = s.word in (OPEN, NEVER, GIVEN) or (s.word == FRESH and not s.listed)
        return (s.client in ENDED and is_over and not s.part and not s.prepare and not s.other and
                s.node_a == s.node_b == UP and s.log_a.is_synced() and s.log_b.is_synced())

    def steps(self, _, s):
        self.check(s)
        yield from self.client_steps(s)
        yield from self.home_steps(s)
        yield from self.part_steps(s)
        yield from self.asked_steps(s)
        yield from self.reader_steps(s)
        yield from self.faults(s)

    def check(self, s):
        if s.node_b == UP and s.put == "acknowledged":
            if not (PUT in s.y if self.puts == "y" else s.z):
                raise Broken("a put that was acknowledged is lost")
        if "x" in s.seen and s.reader == "ended" and self.reads == "xy" and "y" not in s.seen:
            raise Broken("a reader has found x new, then y old")
        if "y" in s.seen and s.reader == "ended" and self.reads == "yx" and "x" not in s.seen:
            raise Broken("a reader has found y new, then x old")
        if s.client == NO and not s.demanded:
            raise Broken("refused, though only readers have asked")
        if not self.is_quiet(s):
            return
        if self.splits and (T in s.y) != s.rest:
            raise Broken("half of the part is there")
        if self.lies == "own":
            return
        if s.x != (T in s.y) and not self.marks_only:
            raise Broken("half of the transaction is there")
        if (s.client == YES and not s.x) or (s.client == NO and s.x):
            raise Broken(f"the client {s.client}, which is not so")

    # --- The client ---

    def client_steps(self, s):
        if s.client == IDLE:
            yield "the client asks to prepare", s._replace(client=PREPARES, prepare="sent")
        if s.client == PREPARES:
            yield "the client gives the number up", s._replace(
                client=NO, tell=NEVER if s.session_b else "", demanded=True)
            if s.prepared == "yes":
                yield "the client learns that all is prepared", s._replace(client=MAY_DECIDE, prepared="")
            if s.prepared == "no":
                yield "the client learns that it is refused", s._replace(
                    client=NO, prepared="", demanded=True)
        if s.client == MAY_DECIDE or (s.client == PREPARES and self.broken == "decides early"):
            if s.session_a:
                yield "the client asks to decide", s._replace(client=DECIDES, decide="sent")
            else:
                yield "the client has no word any more", self.told(s, NO)
        if s.client == DECIDES and s.decided in (YES, NO):
            yield f"the client {s.decided}", self.told(s._replace(decided=""), s.decided)
        if s.client == ASKS:
            yield "the client stops asking", s._replace(client=UNKNOWN)
            if s.node_a == UP and s.word != UNCONFIRMED and self.answers_a(s):
                told = {OPEN: NO, NEVER: NO, COMMITTED: YES}.get(s.word, UNKNOWN)
                if s.word == FRESH and (s.listed or self.broken == "asks another memory"):
                    told = YES if s.listed and self.broken != "asks another memory" else NO
                yield f"the home answers: the client {told}", self.told(
                    self.aborted(s) if s.word == OPEN else s, told)

    @staticmethod
    def told(s, what):
        tells = {YES: HAPPENED, NO: NEVER}.get(what, "")
        return s._replace(client=what, tell=tells if s.session_b else "")

    @staticmethod
    def aborted(s):
        return s._replace(word=NEVER, demanded=True)

    # --- The home ---

    def answers_a(self, s):
        waits = self.broken == "recovered by others" and s.adopted_a and s.other
        return s.node_a == UP and not waits

    def home_steps(self, s):
        if s.node_a != UP:
            return
        is_ours = s.label or self.broken == "label unchecked"
        if s.decide and s.word == OPEN and is_ours:
            if s.z:
                raise Broken("it happens on a condition that does not hold any more")
            log = s.log_a.plus(DECIDED) if self.has_logs else s.log_a
            word, answer = (UNCONFIRMED, "held") if self.has_logs else (COMMITTED, YES)
            yield "the home decides", s._replace(decide="", decided=answer, word=word, x=True, log_a=log)
        elif s.decide:
            yield "the home refuses", s._replace(decide="", decided=NO, demanded=s.demanded or not is_ours)
        if not s.log_a.is_synced():
            yield "the home's log is synced", s._replace(
                log_a=s.log_a._replace(synced=len(s.log_a.records)),
                word=COMMITTED if s.word == UNCONFIRMED else s.word,
                decided=YES if s.decided == "held" else s.decided)
        if s.word == OPEN and s.client in (NO, UNKNOWN):
            yield "the word is given out again", s._replace(word=GIVEN)
            if s.session_a:
                yield "a later number is committed", s._replace(word=LATER)
        if s.word == LATER:
            yield "the later number is forgotten", s._replace(word=GIVEN)
        is_kept = s.word == COMMITTED or s.listed
        if is_kept and not s.gone and not s.is_gone and not self.marks_only:
            yield "the home asks whether the part is gone", s._replace(gone="asked")
        if is_kept and s.gone == "yes":
            yield "the home learns that the part is gone", s._replace(gone="", is_gone=True)
        # A session that is gone may be so for long.
        is_done = s.client in ENDED or not s.session_a
        needs_no_answer = self.marks_only or self.broken == "forgets early"
        if is_kept and is_done and (s.is_gone or needs_no_answer):
            log = s.log_a.plus(FORGOTTEN) if self.has_logs else s.log_a
            word = GIVEN if s.word == COMMITTED else s.word
            if self.broken == "forgets as aborted" and word == GIVEN:
                word = NEVER
            yield "the home forgets", s._replace(word=word, listed=False, log_a=log, gone="")

    def fate(self, s):
        if not s.label and s.word != OPEN:
            return NEVER
        if s.word == FRESH:
            return HAPPENED if s.listed else NEVER
        later = HAPPENED if self.broken == "any number" else NEVER
        return {GIVEN: NEVER, LATER: later, COMMITTED: HAPPENED}.get(s.word, s.word)

    # --- The part ---

    def answers_b(self, s):
        waits = self.broken == "recovered by others" and s.adopted_b and s.part
        return s.node_b == UP and not waits

    def part_steps(self, s):
        if s.node_b != UP:
            return
        if s.prepare and s.z:
            yield "the part refuses", s._replace(prepare="", prepared="no")
        elif s.prepare:
            log = s.log_b.plus(PREPARED) if self.has_logs else s.log_b
            yield "the part is prepared", s._replace(
                prepare="", part=True, marks=True, record=True, log_b=log,
                prepared="held" if self.has_logs else "yes")
        if not s.log_b.is_synced():
            yield "the part's log is synced", s._replace(
                log_b=s.log_b._replace(synced=len(s.log_b.records)),
                prepared="yes" if s.prepared == "held" else s.prepared,
                put="acknowledged" if s.put == "held" else s.put)
        if s.tell:
            told = s._replace(tell="")
            yield f"the client tells: {s.tell}", self.settled(told, s.tell) if s.part else told
        believes = s.session_b if self.lies == "own" else self.broken == "told by any"
        if s.part and self.lies and believes and not s.fate:
            yield f"{self.lies} client lies: happened", self.settled(s, HAPPENED)
        if s.fate:
            yield "the rest of the part is settled", self.ended(s, s.fate)
        if s.part and self.broken == "undone alone":
            yield "the part is undone", self.settled(s, NEVER)
        if s.put == "" and self.puts:
            is_held = s.part if self.puts == "y" else s.marks
            if not is_held:
                yield "a put", self.put(s)

    def put(self, s):
        log = s.log_b.plus(IN_Y if self.puts == "y" else IN_Z) if self.has_logs else s.log_b
        s = s._replace(log_b=log, put="held" if self.has_logs else "acknowledged")
        return s._replace(y=(*s.y, PUT)) if self.puts == "y" else s._replace(z=True)

    def settled(self, s, fate):
        if s.fate:
            return s
        if not self.splits:
            return self.ended(s, fate)
        y = (*s.y, T) if fate == HAPPENED and T not in s.y else s.y
        return s._replace(fate=fate, y=y)

    def ended(self, s, fate):
        if self.splits:
            s = s._replace(fate="", rest=fate == HAPPENED)
            return s._replace(part=False, marks=False, record=False, adopted_b=False)
        log = s.log_b.plus(fate) if self.has_logs else s.log_b
        y = (*s.y, T) if fate == HAPPENED and not self.marks_only else s.y
        return s._replace(part=False, marks=False, record=False, adopted_b=False, y=y, log_b=log)

    # --- What one node asks the other ---

    def asked_steps(self, s):
        if s.node_b == UP and s.part and not s.demand and not s.fate:
            yield "the part demands", s._replace(demand="asked", demanded=True)
        if s.demand == "asked" and self.answers_a(s):
            fate = self.fate(s)
            if fate == UNCONFIRMED:
                is_rash = self.broken == "settled unconfirmed"
                yield "the home answers: unconfirmed", s._replace(demand=HAPPENED if is_rash else "")
            else:
                after = self.aborted(s) if fate == OPEN else s
                yield f"the home answers: {self.fate(after)}", after._replace(demand=self.fate(after))
        if s.demand in (HAPPENED, NEVER) and s.node_b == UP:
            after = s._replace(demand="")
            yield f"the part learns: {s.demand}", self.settled(after, s.demand) if s.part else after
        can_say = self.answers_b(s) or (s.node_b == STARTS and self.broken == "gone at the start")
        if s.gone == "asked" and can_say:
            is_there = s.part and s.node_b == UP
            is_synced = s.log_b.is_synced() or self.broken == "gone unconfirmed"
            if not is_there and is_synced:
                yield "the part is said to be gone", s._replace(gone="yes")
        if s.other and s.node_a == UP and self.answers_b(s):
            yield "the other part learns: never", s._replace(other=False, adopted_a=False)

    # --- A reader, and the looks of B's owner ---

    def reader_steps(self, s):
        if not self.reads:
            return
        place = {"": 0, "second": 1}.get(s.reader)
        if place is not None and self.reads[place] == "x" and s.node_a != EMPTY:
            yield "the reader gets x", self.has_read(s, "x" if s.x else "")
        if place is not None and self.reads[place] == "y" and s.node_b == UP:
            if not s.part:
                yield "the reader gets y", self.has_read(s, "y" if T in s.y else "")
            elif s.look and self.broken != "old look":
                yield "the reader's call waits for the next look", s._replace(reader="waits")
            else:
                yield "the reader's call waits", s._replace(reader="looks", look=s.look or "asked")
        if s.node_b == UP and s.part and not s.look:
            yield "the part looks for another reader", s._replace(look="asked")
        if s.look == "asked" and self.answers_a(s):
            fate = self.fate(s)
            after = self.aborted(s) if fate == OPEN and self.broken == "look records" else s
            if self.broken == "look records":
                after = after._replace(demanded=s.demanded)
            yield f"the home tells the look: {self.fate(after)}", after._replace(look=self.fate(after))
        if s.look not in ("", "asked") and s.node_b == UP:
            yield "the look ends", self.looked(s)

    def looked(self, s):
        fate = s.look
        s = s._replace(look="")
        if s.reader == "looks":
            has_happened = s.part and fate in (HAPPENED, UNCONFIRMED)
            s = self.has_read(s, "y" if has_happened or T in s.y else "")
        if s.part and fate in (HAPPENED, NEVER):
            s = self.settled(s, fate)
        if s.reader == "waits":
            if s.part:
                return s._replace(reader="looks", look="asked")
            s = self.has_read(s, "y" if T in s.y else "")
        return s

    def has_read(self, s, key):
        is_first = len(s.seen) == 0
        return s._replace(seen=(*s.seen, key), reader="second" if is_first else "ended")

    # --- What fails ---

    def faults(self, s):
        if s.breaks and s.session_a:
            after = without_session_a(s)._replace(breaks=s.breaks - 1)
            if self.broken == "lost is refused" and s.client == DECIDES:
                after = self.told(after, NO)
            yield "the session with the home ends", after
        if s.breaks and s.session_b:
            yield "the session with the part ends", without_session_b(s)._replace(breaks=s.breaks - 1)
        if s.kills and s.node_a == UP:
            for memory in ("kept", "lost"):
                if f"a {memory}" in self.deaths:
                    yield f"the home dies, memory {memory}", without_a(s, memory == "kept")._replace(
                        kills=s.kills - 1)
        if s.kills and s.node_b == UP:
            for memory in ("kept", "lost"):
                if f"b {memory}" in self.deaths:
                    yield f"the part's node dies, memory {memory}", without_b(s, memory == "kept")._replace(
                        kills=s.kills - 1)
        if s.node_a == STARTS:
            yield "the home has started", s._replace(node_a=UP)
        if s.node_a == EMPTY:
            records = s.log_a.records
            yield "the home has started from its log", s._replace(
                node_a=UP, word=FRESH, x=DECIDED in records,
                listed=DECIDED in records and FORGOTTEN not in records)
        if s.node_b == STARTS:
            yield "the part's node has started", s._replace(
                node_b=UP, marks=s.record and self.broken != "marks in the process", adopted_b=s.part,
                fate="" if self.broken == "fate in the process" else s.fate)
        if s.node_b == EMPTY:
            yield "the part's node has started from its log", self.replayed(s)

    def replayed(self, s):
        records = s.log_b.records
        y = tuple({IN_Y: PUT, HAPPENED: T}[one] for one in records if one in (IN_Y, HAPPENED))
        is_open = PREPARED in records and HAPPENED not in records and NEVER not in records
        if self.broken == "start settles" and is_open:
            return s._replace(node_b=UP, y=y, z=IN_Z in records, log_b=s.log_b.plus(NEVER))
        marks = is_open and self.broken != "remade without marks"
        return s._replace(node_b=UP, y=y, z=IN_Z in records, part=is_open, record=marks, marks=marks,
                          adopted_b=is_open)
