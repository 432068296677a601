# SPDX-License-Identifier: Apache-2.0
"""The steps of the small worlds of common_end_model.py, and what must hold in them."""
from itertools import product
from typing import NamedTuple

from common_end_state import (
    COMMITTED, CUT, DECIDED, FOUND, HAPPENED, NEVER, OPEN, OVER, PREPARED, PUT, SETTLED, Snapshot)
from schedules import Broken


# `parts`: the other shards that it writes in. `word`: two of the same one, the later number is the second's.
class Transaction(NamedTuple):
    home: int
    parts: tuple
    word: int


class Model:
    def __init__(self, broken=None, names=(), reads_slowly=False, dies_with_processes=False, syncs=False,
                 aborts=False, stalls=False, loses_rings=False, then_always=False, says_synced=False):
        self.broken = broken and broken.split(",")[0]
        self.names = names
        self.reads_slowly = reads_slowly  # Stands are read one by one, and others append in between.
        self.dies_with_processes = dies_with_processes  # What was not synced may then stay, or go later.
        self.syncs = syncs
        self.aborts = aborts
        self.stalls = stalls  # Failures end by themselves: the disk was full.
        self.loses_rings = loses_rings  # One with a server that is killed.
        self.then_always = then_always  # A server that is killed is started again with `always`.
        self.says_synced = says_synced  # In what records need; else 0.
        self.checked = set()

    @staticmethod
    def world(state):
        return state

    # Nothing is under way: no key is held, each log works, no snapshot waits.
    @staticmethod
    def is_quiet(s):
        return not s.fills and not any(
            one.coming or one.failed or one.turn or not one.is_open or any(
                one.holds(record.name) for record in one.records if record.kind == PREPARED)
            for one in s.shards)

    def steps(self, _, s):
        if s.fills:
            yield from self.fill_steps(s)
        else:
            for i, shard in enumerate(s.shards):
                yield from self.shard_steps(s, i, shard)
        yield from self.deaths(s)

    # --- A shard that serves ---

    def shard_steps(self, s, i, shard):
        if not shard.is_open:
            drains = s.always and self.broken != "always at once"
            yield f"shard {i} opens its log", s.at(i, shard._replace(
                is_open=True, synced=len(shard.records) if drains else shard.synced))
            return
        if self.syncs and not shard.failed and shard.synced < len(shard.records):
            yield f"shard {i} syncs a record", s.at(i, shard._replace(synced=shard.synced + 1))
        if s.failures and not shard.failed:
            coming = shard.coming if self.broken == "snapshots before a failure" else None
            yield f"THE LOG OF SHARD {i} FAILS", s.at(i, shard._replace(
                failed=s.order + 1, coming=coming))._replace(failures=s.failures - 1)
        if shard.failed and self.stalls:
            yield f"the log of shard {i} has room again", s.at(i, shard._replace(failed=0))
        if not all(one.is_open for one in s.shards) and self.broken != "settled before opened":
            return
        if shard.turn:
            yield from self.turn_steps(s, i, shard)
            return
        yield from self.snapshot_steps(s, i, shard)
        is_any_stuck = any(one.failed for one in s.shards)
        if shard.failed or (is_any_stuck and self.broken not in ("failed alone", "failed")):
            return
        if s.may_put[i]:
            left = tuple(n - (j == i) for j, n in enumerate(s.may_put))
            yield f"a put in shard {i}", s.appended(i, shard.plus(PUT, -1, s.order))._replace(may_put=left)
        if not is_any_stuck or self.broken == "failed alone":
            yield from self.settle_steps(s, i, shard)
            yield from self.transaction_steps(s, i, shard)

    def transaction_steps(self, s, i, shard):
        for name, one in enumerate(self.names):
            if s.words[name] != OPEN:
                continue
            if i in one.parts and not shard.has(name, PREPARED) and self.is_word_free(s, name):
                yield f"shard {i} prepares T{name}", s.appended(i, shard.plus(PREPARED, name, s.order))
            are_prepared = all(s.shards[part].holds(name) and (
                not s.always or s.shards[part].has_synced(name, PREPARED)) for part in one.parts)
            if i == one.home and are_prepared and self.is_word_free(s, name):
                seen = tuple(self.last_told(s, log) for log in s.shards)
                begun = s.at(i, shard._replace(turn=("decides", name, (), seen)))
                if self.reads_slowly:
                    yield f"shard {i} begins to decide T{name}", begun
                else:
                    yield f"shard {i} decides T{name}", self.decided(begun, i, self.stands(s, i))
            if self.aborts and i in one.parts and shard.holds(name):
                yield f"shard {i} decides against T{name}", self.with_word(s, name, OVER)

    # The order of the last record that may have been acknowledged.
    @staticmethod
    def last_told(s, log):
        told = log.records[:log.synced] if s.always else log.records
        return told[-1].order if told else -1

    # A word is used again when all parts of the one before are settled, in the logs of this server.
    def is_word_free(self, s, name):
        for before, one in enumerate(self.names[:name]):
            if one.word != self.names[name].word:
                continue
            if s.words[before] == OPEN:
                return False
            if self.broken != "forgets early" and any(s.shards[part].holds(before) for part in one.parts):
                return False
        return True

    @staticmethod
    def with_word(s, name, word):
        return s._replace(words=(*s.words[:name], word, *s.words[name + 1:]))

    def stands(self, s, i):
        return tuple(self.stand_of(s, j) for j in range(len(s.shards)) if j != i)

    def stand_of(self, s, j):
        log = s.shards[j]
        return j, log.stand if log.is_open else 0, log.synced_up_to() if self.says_synced else 0

    # Turns that read stands one by one.
    def turn_steps(self, s, i, shard):
        what, name, stands, seen = shard.turn
        others = self.stands(s, i)
        if len(stands) < len(others):
            yield f"shard {i} reads the stand of shard {others[len(stands)][0]}", s.at(i, shard._replace(
                turn=(what, name, (*stands, others[len(stands)]), seen)))
        elif what == "decides":
            yield f"shard {i} decides T{name}", self.decided(s, i, stands)
        else:
            yield f"shard {i} ends its turn", s.at(i, self.snapped(s, i, stands, shard.coming))

    def decided(self, s, i, stands):
        shard = s.shards[i]
        name, seen = shard.turn[1], shard.turn[3]
        if self.broken == "decided needs nothing" or s.always:
            stands = ()
        if self.broken == "decided needs its parts":
            stands = tuple(one for one in stands if one[0] in self.names[name].parts)
        after = shard.plus(DECIDED, name, s.order, stands, seen)._replace(turn=())
        return self.with_word(s.appended(i, after), name, COMMITTED)

    def settle_steps(self, s, i, shard):
        for name, one in enumerate(self.names):
            if i not in one.parts or s.words[name] == OPEN or not shard.holds(name):
                continue
            happened = s.words[name] == COMMITTED
            home = s.shards[one.home]
            # With `always` the word of one that is not synced says so; but a server before it may have been
            # content with less.
            if s.always and happened and not home.has_synced(name, DECIDED) and not any(
                    record.name == name and record.kind == DECIDED and record.order < s.always - 1
                    for record in home.records):
                continue
            needs = (self.stand_of(s, one.home),) if happened else ()
            if self.broken == "settled needs nothing" or s.always:
                needs = ()
            yield f"shard {i} settles T{name}", s.appended(
                i, shard.plus(HAPPENED if happened else NEVER, name, s.order, needs))

    # --- Snapshots ---

    def listed(self, s, i):
        if self.broken == "forgets early":
            return ()
        return tuple(name for name, one in enumerate(self.names)
                     if one.home == i and s.words[name] == COMMITTED and any(
                         s.shards[part].holds(name) for part in one.parts))

    def moment(self, s, i):
        shard = s.shards[i]
        return Snapshot(len(shard.records), shard.stand, self.listed(s, i))

    def snapped(self, s, i, stands, coming):
        coming = coming or self.moment(s, i)
        return s.shards[i]._replace(coming=coming._replace(waits=stands), turn=())

    def snapshot_steps(self, s, i, shard):
        if not shard.coming and (s.may_snap[i] or shard.failed) and shard.snapshot.at != shard.stand:
            left = tuple(n - (j == i and not shard.failed) for j, n in enumerate(s.may_snap))
            begun = s._replace(may_snap=left)
            text = f"the snapshot of shard {i} begins"
            if self.reads_slowly:
                coming = None if self.broken == "stands before the moment" else self.moment(s, i)
                yield text, begun.at(i, shard._replace(turn=("snapshot", -1, (), ()), coming=coming))
            else:
                yield text, begun.at(i, self.snapped(s, i, self.stands(s, i), None))
        if shard.coming and (self.broken == "snapshot at once" or self.may_publish(s, i)):
            yield f"the snapshot of shard {i} is published", self.published(s, i)
        for j in range(i):
            if self.may_publish(s, i, j) and self.may_publish(s, j, i):
                yield f"the snapshots of shards {j} and {i} are published", self.published(
                    self.published(s, i), j)
        # Only with one that has all that the log has lost.
        if shard.failed and shard.snapshot.at == shard.stand:
            yield f"the log of shard {i} begins again", s.at(
                i, shard._replace(failed=0, has_ring=True, synced=len(shard.records)))

    @staticmethod
    def published(s, i):
        shard = s.shards[i]
        return s.at(i, shard._replace(snapshot=shard.coming._replace(waits=()), coming=None))

    # Where two logs have failed, both at once: `beside` is the other one.
    def may_publish(self, s, i, beside=-1):
        shard = s.shards[i]
        if not shard.coming or (beside >= 0 and not shard.failed):
            return False
        for j, at, _ in shard.coming.waits:
            log = s.shards[j]
            if j == beside and log.failed and log.coming:
                has = log.coming.at >= at or self.broken == "snapshots before a failure"
            elif log.failed:
                has = self.broken == "snapshot beside a failure"
            else:
                has = log.synced_up_to() >= at
            if not has:
                return False
        return True

    # --- Deaths ---

    def deaths(self, s):
        if s.server_kills and not s.fills:
            killed = s._replace(server_kills=s.server_kills - 1, words=self.words_of_none(s), shards=tuple(
                one._replace(coming=None, turn=(), is_open=False) for one in s.shards),
                always=s.order + 1 if self.then_always else s.always)
            yield "THE SERVER IS KILLED", killed
            for i, shard in enumerate(killed.shards if self.loses_rings else ()):
                stand = shard.synced_up_to() if self.broken == "positions again" else shard.jump()
                yield f"THE SERVER IS KILLED, THE RING OF SHARD {i} IS LOST", killed.at(
                    i, shard._replace(failed=s.order + 1, stand=stand, has_ring=False))
        if not s.kills:
            return
        for kept in product(*(range(one.synced, (len(one.records) if one.has_ring else one.synced) + 1)
                              for one in s.shards)):
            text = f"THE HOST DIES, THE LOGS HAVE {kept}"
            died = self.died(s, kept, True)
            if died.kills:
                yield text, died
            elif self.is_unchecked(died):
                try:
                    self.fill_at_once(died)
                except Broken as broken:
                    raise Broken(f"{text}: {broken}") from None
            if self.dies_with_processes and died.kills and not s.fills:
                yield f"ALL PROCESSES DIE, THE FILES HAVE {kept}", self.died(s, kept, False)

    # What follows depends on nothing else.
    def is_unchecked(self, died):
        key = (died.shards, died.expected)
        if key in self.checked:
            return False
        self.checked.add(key)
        return True

    # Sessions die: what is not decided by then never is.
    @staticmethod
    def words_of_none(s):
        return tuple(OVER if word == OPEN and any(one.has(name, PREPARED) for one in s.shards) else word
                     for name, word in enumerate(s.words))

    def died(self, s, kept, is_durable):
        shards = tuple(one.without_memory(n, is_durable) for one, n in zip(s.shards, kept, strict=True))
        return s._replace(shards=shards, words=self.words_of_none(s), kills=s.kills - 1, fills=True, ends=(),
                          expected=self.expected(s, shards))

    # What had been appended before the first that is lost. Where a log has failed, also what others have
    # acknowledged since, and not lost themselves.
    @staticmethod
    def expected(s, left):
        def first_lost(logs):
            return min((was.records[len(now.records)].order for was, now in logs
                        if len(now.records) < len(was.records)), default=s.order)

        logs = list(zip(s.shards, left, strict=True))
        first = first_lost(logs)
        first_of_others = first_lost(log for log in logs if not log[0].failed)
        failed = max(one.failed for one in s.shards)
        kept = [record for now in left for record in now.records]
        orders = {record.order for record in kept if record.order < first}
        if failed:
            orders |= {record.order for record in kept if failed - 1 <= record.order < first_of_others
                       and record.kind in (PUT, PREPARED, DECIDED)}
        if s.always:
            orders |= {record.order for one in s.shards for record in one.records[:one.synced]
                       if record.kind in (PUT, DECIDED) and record.order >= s.always - 1}
        # A second death in a start: what the first one has left.
        if s.fills:
            orders = {order for order in s.expected if order < first}
        return frozenset(orders)

    # --- A start ---

    def is_met(self, shard, end, position):
        at = shard.records[end].at if end < len(shard.records) else shard.stand
        if self.broken == "no position in snapshots":
            at = min(at, shard.torn or at)
        elif position <= shard.snapshot.at:
            return True
        if position > at:
            return False
        in_gap = any(low < position < high for low, high, _ in shard.gaps)
        return not in_gap or self.broken == "gaps count"

    # What any record says to have been on the disk is there: no crash may be taken for the loss of files.
    def look_for_loss(self, shards):
        for shard in shards:
            for record in shard.records[shard.snapshot.count:]:
                for j, _, position in record.needs:
                    log = shards[j]
                    in_gap = any(low < position < high and not (is_cut and self.broken != "cuts are losses")
                                 for low, high, is_cut in log.gaps)
                    if position > log.snapshot.at and (position > log.stand or in_gap):
                        raise Broken("a crash is taken for a loss of files")

    def common_end(self, shards):
        self.look_for_loss(shards)
        ends = [len(one.records) for one in shards]
        while True:
            before = tuple(ends)
            for i, shard in enumerate(shards):
                for count in range(shard.snapshot.count, before[i]):
                    if not all(self.is_met(shards[j], before[j], at)
                               for j, at, _ in shard.records[count].needs):
                        ends[i] = count
                        break
            if tuple(ends) == before or self.broken == "one pass":
                return tuple(ends)

    # By words, as the logs' readers know it: the last number of each.
    def known(self, shards):
        last = {}
        for name, one in enumerate(self.names):
            home = shards[one.home]
            read = home.records[home.snapshot.count:]
            if name in home.snapshot.listed or any(
                    record.kind == DECIDED and record.name == name for record in read):
                last[one.word] = name
        return set(last.values())

    def settled(self, shard, known, order):
        for name in range(len(self.names)):
            if shard.holds(name):
                shard = shard.plus(HAPPENED if name in known else NEVER, name, order)
                order += 1
        return shard._replace(synced=len(shard.records), stage=SETTLED)

    def cut(self, shard, end):
        first = shard.stand + 1 if self.broken == "positions again" else shard.jump()
        # A segment that is empty is begun again, and says what it said before.
        if self.broken == "empty segments stay" and shard.gaps and shard.gaps[-1][1] == shard.stand:
            end = len(shard.records)
        return shard.cut(end, first)._replace(stage=CUT)

    def fill_at_once(self, s):
        ends = self.common_end(s.shards)
        cut = [self.cut(shard, end) for shard, end in zip(s.shards, ends, strict=True)]
        known = self.known(cut)
        self.check(tuple(self.settled(shard, known, s.order) for shard in cut), s.expected)

    def fill_steps(self, s):
        stages = [one.stage for one in s.shards]
        if not s.ends:
            yield "all shards have read their logs", s._replace(
                ends=self.common_end(s.shards), shards=tuple(one._replace(stage=FOUND) for one in s.shards))
            return
        for i, shard in enumerate(s.shards):
            if shard.stage == FOUND:
                yield f"shard {i} cuts its log", s.at(i, self.cut(shard, s.ends[i]))
            may_settle = all(stage in (CUT, SETTLED) for stage in stages) or self.broken == "no meeting"
            if shard.stage == CUT and may_settle:
                after = self.settled(shard, self.known_of(s), s.order)
                added = len(after.records) - len(shard.records)
                yield f"shard {i} settles what is open", s.at(i, after)._replace(order=s.order + added)
        if all(stage == SETTLED for stage in stages):
            self.check(s.shards, s.expected)
            yield "the shards serve", s._replace(fills=False, ends=(), expected=frozenset(), shards=tuple(
                one._replace(stage="") for one in s.shards))

    def known_of(self, s):
        return self.known([shard if shard.stage != FOUND else shard._replace(records=shard.records[:end])
                           for shard, end in zip(s.shards, s.ends, strict=True)])

    # --- What must hold behind a start ---

    def check(self, shards, expected):
        orders = [{record.order for record in one.records} for one in shards]
        for name, one in enumerate(self.names):
            decided = [record for record in shards[one.home].records
                       if record.kind == DECIDED and record.name == name]
            is_there = {bool(decided)} | {shards[part].has(name, HAPPENED) for part in one.parts}
            if len(is_there) > 1:
                raise Broken(f"half of T{name}")
            if decided and any(
                    order >= 0 and order not in orders[j] for j, order in enumerate(decided[0].seen)):
                raise Broken(f"T{name} is there, and something is not that was acknowledged before it")
        if not expected <= set().union(*orders):
            raise Broken("more is lost than the death took, and what came behind it")
