# SPDX-License-Identifier: Apache-2.0
"""The steps of the small world of transaction_logs_model.py, and what must hold in it."""
from schedules import Broken
from transaction_logs_crossing import Crossing
from transaction_logs_faults import Faults
from transaction_logs_state import (
    ASKS, CLAIMED, COMMITTED, DECIDED, DECIDES, FILLS, GIVEN, HAPPENED, IDLE, KILLED, LATER, LATER_NEW, LOST,
    MAY_DECIDE, NEVER, NEW, NOT_HAPPENED, OLD, PENDING, PREPARED, RUNS, TOLD_NO, TOLD_YES, UNCONFIRMED,
    UNDECIDED, UNKNOWN, WRITES, Snapshot)
from transaction_logs_worlds import MUTATIONS


def model(broken=None, crosses=False, **rules):
    assert broken is None or broken in MUTATIONS
    broken = broken and broken.removesuffix(", everysec")
    return Crossing(broken) if crosses else Model(broken, **rules)


class Model(Faults):
    def __init__(self, broken, always, deaths, loses_rings):
        self.broken = broken
        self.always = always  # A record is confirmed when it is synced. Else syncs change nothing here.
        self.deaths = deaths
        self.loses_rings = loses_rings

    @staticmethod
    def world(state):
        return state

    # --- What must hold. Says whether nothing is under way. ---

    def is_quiet(self, s):
        home, part = s.home.value, s.part.value
        unclear = (PENDING, UNKNOWN)
        if s.server == RUNS and not s.home.turn and not s.part.turn and s.home.recovered and \
                home not in unclear and part not in unclear:
            if (home == NEW) != (part in (NEW, LATER_NEW)):
                raise Broken(f"half a transaction: the home's key is {home}, the part's is {part}")
            if s.client == TOLD_NO and home == NEW:
                raise Broken("what was told to have not happened is there")
            if s.client == TOLD_YES and home != NEW:
                raise Broken("what was told to have happened is lost")
            if s.later == "acknowledged" and part not in WRITES:
                raise Broken("an acknowledged later write is lost")
        return not self.unfinished(s)

    @staticmethod
    def unfinished(s):
        if s.server != RUNS:
            return "a start comes to no end"
        if PENDING in (s.home.value, s.part.value):
            return f"a key is held, and the word is {s.word}"
        if s.word in (CLAIMED, UNCONFIRMED):
            return f"the word stays {s.word}"
        if s.home.failed or s.part.failed:
            return "a failed log is not mended"
        if s.home.coming or s.part.coming:
            return "a snapshot does not end"
        if s.client in (ASKS, MAY_DECIDE, DECIDES):
            return "the client has no answer"
        return ""

    def is_confirmed(self, shard, position):
        return not self.always or (not shard.failed and shard.synced >= position)

    # --- All steps ---

    def steps(self, _, s):
        moves = list(self.moves(s))
        if not moves and self.unfinished(s):
            raise Broken(self.unfinished(s))
        yield from moves
        yield from self.faults(s)

    def moves(self, s):
        if s.server == RUNS:
            yield from self.client_moves(s)
            yield from self.home_moves(s) if s.home.recovered else self.home_recovers(s)
            yield from self.part_turns(s) if s.part.turn else self.part_moves(s)
            yield from self.snapshot_moves(s)
        if s.server == KILLED:
            yield "the server starts", self.started(s)
        if s.server == LOST:
            yield "the server starts to fill", s._replace(server=FILLS)
        if s.server == FILLS:
            yield from self.fill_moves(s)
        if s.server in (RUNS, FILLS) and self.always:
            for name in ("home", "part"):
                shard = getattr(s, name)
                if not shard.failed and not shard.is_synced():
                    yield f"the {name}'s log syncs a record", s.at(name, synced=shard.synced + 1)

    # --- The client. Its session, and who asks for the outcome behind a restart ---

    def client_moves(self, s):
        part = s.part
        if s.client == IDLE:
            yield "the client asks to prepare", s._replace(client=ASKS)
        if s.client == ASKS and not part.turn and s.has_recovered() and part.has(PREPARED) and \
                (self.is_confirmed(part, part.end_of(PREPARED)) or self.broken == "prepared unconfirmed"):
            yield "the client hears that the part is prepared", s._replace(client=MAY_DECIDE)
        if s.client == ASKS and s.word != UNDECIDED:
            yield "the client is refused", s._replace(client=TOLD_NO)
        if s.client == MAY_DECIDE and not s.home.turn:
            yield "the client asks to decide", s._replace(client=DECIDES).at_home(turn="decides")
        if s.client == DECIDES and not s.home.turn and s.has_recovered():
            if s.word == COMMITTED or (s.word == UNCONFIRMED and self.broken == "told unconfirmed"):
                yield "the client is told yes", s._replace(client=TOLD_YES)
            if s.word in (UNDECIDED, NEVER):
                yield "the client is told no", s._replace(client=TOLD_NO, word=NEVER)

    # --- The home ---

    # Claims the word, appends, stores the word, then the key.
    def home_moves(self, s):
        turn = s.home.turn
        if turn == "decides":
            if s.home.failed:
                word = NEVER if s.word == UNDECIDED else s.word
                yield "the home refuses", s._replace(client=TOLD_NO, word=word).at_home(turn="")
            else:
                yield "the home's key is pending", s.at_home(value=PENDING, turn="is pending")
        elif turn == "is pending":
            yield self.claim(s)
        elif turn == "has claimed":
            yield "the home appends", s._replace(home=s.home.plus(DECIDED, turn="has appended"))
        elif turn == "has appended":
            if self.broken == "no claim" and s.word != UNDECIDED:
                yield self.undone(s)
            elif self.broken == "word first":
                yield "the home takes the next step", s.at_home(turn="has stored")
            else:
                word = UNCONFIRMED if self.always else COMMITTED
                yield f"the word is {word}", s._replace(word=word).at_home(turn="has stored")
        elif turn == "has stored":
            yield "the home's key is new", s.at_home(value=NEW, turn="")
        else:
            yield from self.word_moves(s)

    def claim(self, s):
        if s.word != UNDECIDED:
            return self.undone(s)
        if self.broken == "no claim":
            return "the home appends", s._replace(home=s.home.plus(DECIDED, turn="has appended"))
        word = CLAIMED
        if self.broken == "word first":
            word = UNCONFIRMED if self.always else COMMITTED
        return f"the word is {word}", s._replace(word=word).at_home(turn="has claimed")

    @staticmethod
    def undone(s):
        return "the home undoes", s._replace(client=TOLD_NO).at_home(value=OLD, turn="")

    def word_moves(self, s):
        home = s.home
        if s.word == UNCONFIRMED:
            in_log = home.has(DECIDED) and not home.ring_lost and \
                self.is_confirmed(home, home.end_of(DECIDED))
            if in_log or (home.snapshot.listed and not home.failed):
                yield "the word is committed", s._replace(word=COMMITTED)
        is_free = not s.counted or self.broken == "count nothing"
        may_give = s.has_recovered() or self.broken == "words at once"
        if s.word == COMMITTED and s.client not in (ASKS, MAY_DECIDE, DECIDES) and is_free and may_give:
            yield "the word is given out again", s._replace(word=GIVEN)

    # Behind the start of a server whose memory is there.
    def home_recovers(self, s):
        home = s.home
        if s.word == CLAIMED:
            logged = home.records[-1:] == (DECIDED,)
            if home.ring_lost and self.broken != "claim in a lost ring":
                word = UNCONFIRMED  # Until a snapshot of the home lists it.
            elif logged and not home.ring_lost and self.broken != "claim dropped":
                word = UNCONFIRMED if self.always else COMMITTED
            else:
                word = NEVER
            yield f"the home recovers: the word is {word}", s._replace(word=word)
        elif home.value == PENDING and s.word == UNDECIDED:
            yield "the home recovers: the word is never", s._replace(word=NEVER)
        elif home.value == PENDING:
            happened = s.word in (UNCONFIRMED, COMMITTED)
            yield "the home settles its key", s.at_home(value=NEW if happened else OLD)
        else:
            yield "the home has recovered", s.at_home(recovered=True)

    # --- The part ---

    @staticmethod
    def part_turns(s):
        turn = s.part.turn
        if turn == "prepares":
            yield "the part appends: prepared", s._replace(part=s.part.plus(PREPARED, turn=""))
        elif turn in (HAPPENED, NOT_HAPPENED):
            value = NEW if turn == HAPPENED else OLD
            if s.part.value == PENDING:
                yield f"the part's key is {value}", s.at_part(value=value, turn="")
            else:  # A broken rule: the key first.
                yield f"the part appends {turn}", s._replace(
                    part=s.part.plus(turn, turn=""), settled_at=len(s.part.records) + 1)
        else:
            yield "the later write is there", s._replace(later="under way").at_part(value=turn, turn="")

    def part_moves(self, s):
        part = s.part
        if s.client == ASKS and s.word == UNDECIDED and part.value == OLD and not part.has(PREPARED) and \
                not part.failed and not s.counted and s.has_recovered():
            yield "the part's key is pending", s._replace(counted=True).at_part(
                value=PENDING, turn="prepares")
        if part.value == PENDING and (s.word == UNDECIDED or (
                s.word == CLAIMED and self.broken == "claim ignored")):
            yield "the part decides against it", s._replace(word=NEVER)
        if part.value == PENDING:
            yield from self.settle(s)
        if s.settled_at and self.is_confirmed(part, s.settled_at):
            yield "the part is settled, confirmed", s._replace(settled_at=0, counted=False)
        if s.unrecorded and not part.failed:
            yield "the part's snapshot shows it settled", s._replace(unrecorded=False, counted=False)
        if s.later == "to come" and part.has(PREPARED) and part.value in (OLD, NEW) and not part.failed and \
                s.has_recovered():
            value = LATER if part.value == OLD else LATER_NEW
            yield "the later write is appended", s._replace(part=part.plus(value, turn=value))
        if s.later == "under way" and self.is_confirmed(part, part.end_of(*WRITES)):
            yield "the later write is acknowledged", s._replace(later="acknowledged")
        if not part.recovered and part.value != PENDING and not s.settled_at:
            confirmed = not part.failed and not s.unrecorded and self.is_confirmed(part, part.held)
            if confirmed or self.broken == "recovered unconfirmed":
                yield "the part has recovered", s.at_part(recovered=True)

    # The record stands in front of the store, and says what becomes of the transaction.
    def settle(self, s):
        part = s.part
        happened = s.word == COMMITTED or (s.word == UNCONFIRMED and (
            self.broken == "settled unconfirmed" or (part.failed and self.broken == "failed, unconfirmed")))
        if not happened and s.word not in (NEVER, GIVEN):
            return
        value, record = (NEW, HAPPENED) if happened else (OLD, NOT_HAPPENED)
        if part.failed:
            if self.broken in ("failed, unrecorded", "failed, unconfirmed"):
                yield "the part is settled without a record", s._replace(unrecorded=True).at_part(value=value)
        elif self.broken == "no settled":
            yield "the part is settled without a record", s._replace(counted=False).at_part(value=value)
        elif self.broken == "key first":
            yield f"the part's key is {value}", s.at_part(value=value, turn=record)
        else:
            end = len(part.records) + 1
            after = s._replace(part=part.plus(record, turn=record), settled_at=end)
            if self.broken == "counted until appended":
                after = after._replace(settled_at=0, counted=False)
            yield f"the part appends {record}", after

    # --- Snapshots. One mends a failed log, if it is not older than what the log has synced ---

    def snapshot_moves(self, s):
        for name in ("home", "part"):
            shard = getattr(s, name)
            coming = shard.coming
            if not coming:
                yield from self.snapshot_begins(s, name, shard)
            elif shard.failed and coming.position < shard.synced:
                yield f"the {name}'s snapshot is too old", s.at(name, coming=None)
            else:
                yield f"the {name}'s snapshot ends", s.at(
                    name, snapshot=coming, coming=None, failed=False, ring_lost=False,
                    synced=max(shard.synced, coming.position))

    def snapshot_begins(self, s, name, shard):
        budget = f"{name}_snapshots"
        left = getattr(s, budget)
        if shard.turn or not (left or shard.failed):
            return
        value, listed = shard.value, False
        if name == "home":
            if not shard.recovered:
                return
            if self.broken != "counted unlisted":
                listed = s.word in (UNCONFIRMED, COMMITTED) and (s.counted or not s.part.recovered)
        elif shard.value == PENDING:
            value, listed = OLD, self.broken != "prepared unlisted"
        after = s.at(name, coming=Snapshot(len(shard.records), value, listed))
        yield f"the {name}'s snapshot begins", after if shard.failed else after._replace(**{budget: left - 1})

    # --- Starts ---

    # The memory is there: what the part holds is a part again, and counts on its word.
    @staticmethod
    def started(s):
        return s._replace(server=RUNS, counted=s.part.value == PENDING).at_part(held=len(s.part.records))

    # It is not: each reads its log; they meet when that is synced, the part appends what is missing; they
    # serve when that is synced, too.
    def fill_moves(self, s):
        for name in ("home", "part"):
            if not getattr(s, name).turn:
                yield f"the {name} reads its log", s.at(name, turn="has read")
        synced = not self.always or (s.home.is_synced() and s.part.is_synced())
        have_read = s.home.turn == s.part.turn == "has read" or (
            self.broken == "start alone" and s.part.turn == "has read")
        if have_read and (synced or self.broken == "met unsynced"):
            yield "the shards meet", self.met(s)
        if s.part.turn == "has met" and (synced or self.broken == "served unsynced"):
            yield "the shards serve", s._replace(server=RUNS).at_home(turn="", recovered=True).at_part(
                turn="", recovered=True)

    @staticmethod
    def met(s):
        logged = DECIDED in s.home.replayed()
        home = NEW if logged or s.home.snapshot.value == NEW else OLD
        happened = s.home.turn == "has read" and (logged or s.home.snapshot.listed)
        part, is_open = s.part.snapshot.value, s.part.snapshot.listed
        for record in s.part.replayed():
            if record == PREPARED:
                is_open = True
            elif record in WRITES:
                part, is_open = record, False
            elif is_open:
                part, is_open = NEW if record == HAPPENED else part, False
        if is_open:
            part = NEW if happened else part
            s = s._replace(part=s.part.plus(HAPPENED if happened else NOT_HAPPENED))
        return s.at_home(value=home, turn="has met").at_part(value=part, turn="has met")
