# SPDX-License-Identifier: Apache-2.0
"""The steps of the small world of directory_model.py, and what must hold in it."""
from directory_state import ALL, CLOSED, ENDED, FIRST, HELLO, MEMBERS, REPORTED, Directory, World
from directory_worlds import MUTATIONS
from schedules import Broken


class Model:
    world = World

    def __init__(self, broken=None, homes=(0, 1), who=None):
        assert broken is None or broken in MUTATIONS
        self.broken = broken
        self.homes = homes  # Under the first list, under the second.
        self.who = who or {}  # Who may do what the budgets are for, where not all may.

    # --- What must hold. Says whether nothing is under way. ---

    def is_quiet(self, w):
        copies = {copy for copy in w.copy if copy}
        if len(copies) > 1 and not w.deleted:
            raise Broken("two births of one id are live")
        if w.told and FIRST in copies:
            raise Broken("a deleted object is back")
        if w.told and any(d and FIRST in d.holder for d in w.homes):
            raise Broken("a deleted object is listed again")
        if any(get is not None for get in w.get) or any(w.want) or any(w.up) or any(w.down) or any(w.look):
            return False
        if any(w.cut) or len(set(w.version)) > 1:
            return False
        if any(w.stream[m] != ENDED and m != self.home(w, m) for m in MEMBERS):
            return False
        home = self.homes[w.version[0] - 1]
        d = w.homes[w.version[0] - 1]
        if any(w.tomb):
            raise Broken("a tombstone stays")
        if w.deleted and FIRST in copies:
            raise Broken("a deleted object stays")
        if self.broken:
            return True  # A broken rule is to be found by its harm.
        if any((d.holder[m], d.claim[m]) != (w.copy[m], w.made[m]) for m in MEMBERS if m != home) or \
                d.heard != ALL or d.coming or d.unsure:
            raise Broken("the directory is not what members have")
        return True

    def not_found(self, w, m):
        since = w.get[m][1]
        for copy in w.copy:
            if copy and since >> copy & 1 and not (copy == FIRST and w.deleted):
                raise Broken("a live copy is not found")

    def left(self, w, budget, m):
        return getattr(w, budget) and m in self.who.get(budget, MEMBERS)

    # --- Which members talk to which ---

    def home(self, w, m):
        return self.homes[w.version[m] - 1]

    # The directory at the home of m's list; None where the home has another list.
    def directory(self, w, m):
        home = self.home(w, m)
        return w.homes[w.version[m] - 1] if w.version[home] == w.version[m] else None

    # The home itself needs no messages: its directory looks at its own table. What is said on a stream that
    # the home has left is lost.
    def say(self, w, m, *message):
        if m != self.home(w, m) and w.stream[m] != CLOSED and not w.cut[m]:
            w.up[m] += (message,)

    @staticmethod
    def tell(w, m, *message):
        if w.stream[m] != CLOSED:
            w.down[m] += (message,)

    # The member sees that its stream has ended. What it said may still arrive.
    def ends(self, w, m):
        w.stream[m] = CLOSED
        w.down[m] = tuple(message for message in w.down[m] if message[0] == "grant") \
            if self.broken == "late grant" else ()
        w.cut[m] = w.want[m] = w.look[m] = 0
        if w.get[m] and w.get[m][0] == "look":
            w.get[m] = None

    # The home sees it. What it said may still arrive.
    def left_by(self, d, m):
        d.stream[m] = CLOSED
        d.fresh &= ~(1 << m)
        if d.heard != ALL and self.broken != "heard in turns":
            d.heard &= ~(1 << m)

    # --- All steps ---

    def steps(self, w, state):
        for m in MEMBERS:
            for text, step in self.choices(w, m):
                after = World(state)
                try:
                    is_step = step(after, m) is not False
                except Broken as broken:
                    raise Broken(f"{text}: {broken}") from broken
                if is_step:
                    self.forgets(after)
                    yield text, after.frozen()

    # With the home's memory a delete is lost that no other member has heard of: it was not answered as done.
    def forgets(self, w):
        if w.deleted and not w.told and not any(w.tomb) and any(w.ident[home] for home in self.homes):
            w.deleted = 1 if any(("drop",) in down for down in w.down) else 0

    def choices(self, w, m):
        home = self.home(w, m)
        d = self.directory(w, m)
        if d and w.up[m] and w.up[m][0][0] != "hold":
            yield f"home takes of {m}: {' '.join(map(str, w.up[m][0]))}", self.take_up
        if w.down[m]:
            yield f"{m} is told: {' '.join(map(str, w.down[m][0]))}", self.take_down
        yield from self.look_steps(w, m, d)
        if m != home and d:
            if w.stream[m] == CLOSED:
                yield f"{m} says hello", self.hello
            if w.stream[m] == HELLO:
                yield f"{m} ends its report", self.report
        yield from self.stream_ends(w, m, home, d)
        yield from self.program_steps(w, m, home, d)
        get = w.get[m]
        if get and get[0] == "ask":
            for other in MEMBERS:
                if get[2] >> other & 1:
                    yield f"{m} asks {other}", lambda w, m, other=other: self.ask(w, m, other)
            if not get[2]:
                yield f"{m} has asked all", self.asked
        if get and get[0] == "pull":
            yield f"{m} has pulled {get[1]}", self.pulled
        if self.left(w, "crashes", m):
            yield f"the server of {m} is killed", self.crash
        if self.left(w, "losses", m):
            yield f"the memory of {m} is lost", self.loss
        if w.changes and w.version[m] == 1:
            yield f"{m} has the second list", self.change

    # A look-up and its answer travel beside the stream, behind its hello.
    def look_steps(self, w, m, d):
        if w.look[m] == ("look",):
            if d and d.stream[m] != CLOSED and not any(message[0] == "hello" for message in w.up[m]):
                yield f"home takes the look-up of {m}", self.take_look
        elif w.look[m]:
            yield f"{m} hears of its look-up: {' '.join(map(str, w.look[m]))}", self.take_found

    # A stream breaks, which one end sees first, the other later.
    def stream_ends(self, w, m, home, d):
        may_break = self.left(w, "breaks", m)
        if w.stream[m] != CLOSED and (w.cut[m] or may_break):
            yield f"{m} sees its stream end", self.member_sees
        if m != home and d and w.stream[m] != CLOSED and d.stream[m] != CLOSED and may_break and \
                (not w.up[m] or w.up[m][0][0] != "hello"):
            yield f"the home sees the stream of {m} break", self.home_sees_first
        for at, other in enumerate(w.homes):
            if other and other.stream[m] != CLOSED and m != self.homes[at] and \
                    (w.version[m] != at + 1 or w.stream[m] == CLOSED):
                yield f"the home of list {at + 1} sees the stream of {m} end", \
                    lambda w, m, at=at: self.home_sees(w, m, at)

    def member_sees(self, w, m):
        w.breaks -= 0 if w.cut[m] else 1
        self.ends(w, m)

    def home_sees_first(self, w, m):
        w.breaks -= 1
        w.cut[m] = 1
        w.up[m] = ()
        w.look[m] = 0
        self.left_by(self.directory(w, m), m)

    def home_sees(self, w, m, at):
        self.left_by(w.homes[at], m)
        if w.version[m] == at + 1:
            w.up[m] = ()

    def program_steps(self, w, m, home, d):
        birth = w.makers[m]
        if birth and not w.made[m] and not w.want[m] and not w.copy[m]:
            if self.broken == "no claim":
                yield f"{m} makes {birth}", self.make
            elif m == home or w.stream[m] == ENDED:
                yield f"{m} claims {birth}", self.claim
        if w.made[m] and not (w.copy[m] and w.copy[m] != w.made[m]):
            yield f"{m} seals {w.made[m]}", self.seal
        if w.copy[m] and self.left(w, "evictions", m):
            yield f"{m} evicts {w.copy[m]}", self.evict
        if self.left(w, "gets", m) and not w.copy[m] and not w.get[m] and not w.made[m]:
            yield f"{m} gets", self.begin_get
        if w.deletes and m == home and d and not w.deleted and FIRST in self.births(w, m, d, False):
            yield "the home deletes", self.delete

    # --- Making ---

    # Births that the home knows: of holders, and of claims.
    def births(self, w, home, d, with_claims=True):
        births = set(d.holder) | {w.copy[home]}
        if with_claims:
            births |= {claim & 3 for claim in d.claim} | {w.made[home]}
        births.discard(0)
        if w.tomb[home]:
            births.discard(FIRST)
        return births

    def may_make(self, w, home, d, m, birth):
        if d.heard != ALL and self.broken != "incomplete grants":
            return False
        if self.births(w, home, d) - {birth}:
            return False
        coming = d.coming | (1 << home if w.get[home] else 0)
        if coming and self.broken != "nothing to come":
            return False
        return not d.unsure

    def claim(self, w, m):
        if m != self.home(w, m):
            w.want[m] = 1
            self.say(w, m, "claim", w.makers[m])
        elif self.may_make(w, m, self.directory(w, m), m, w.makers[m]):
            self.make(w, m)
        else:
            return False

    def make(self, w, m):
        w.made[m] = w.makers[m]

    def seal(self, w, m):
        birth = w.made[m]
        w.copy[m], w.made[m] = birth, 0
        w.makers = tuple(0 if n == m else maker for n, maker in enumerate(w.makers))
        w.sealed |= 1 << birth
        self.say(w, m, "publish", birth)

    def evict(self, w, m):
        w.evictions -= 1
        self.drop(w, m)

    # A copy goes. The home itself looks at its own table.
    def drop(self, w, m):
        birth, w.copy[m] = w.copy[m], 0
        self.say(w, m, "withdraw")
        if m == self.home(w, m):
            self.vanished(w, m, self.directory(w, m), birth)

    # Where the last holder goes, those whose streams are closed may have what was pulled from it.
    def vanished(self, w, home, d, birth):
        if birth and birth not in self.births(w, home, d, False) and self.broken != "nothing unsure":
            if not (birth == FIRST and w.tomb[home]):
                d.unsure |= ALL & ~d.open_streams()

    # --- Getting. ("look", births sealed before, whether all sessions stood since), then ("ask", those
    # births, members to ask, whether nothing from them means `not_found`), then ("pull", birth). ---

    def begin_get(self, w, m):
        home = self.home(w, m)
        if m == home:
            self.answer(w, m, *self.look_up(w, m, m))
        elif w.stream[m] != CLOSED:
            if self.has_unsaid(w, m) and self.broken != "look overtakes":
                return False
            w.get[m] = ("look", w.sealed, True)
            w.look[m] = 0 if w.cut[m] else ("look",)
        elif (w.ready[m] or self.broken == "ask all") and self.may_ask_all(w, m):
            w.get[m] = ("ask", w.sealed, ALL & ~(1 << m), True)
        else:
            return False
        w.gets -= 1

    # Whether the home may not have taken yet what this member has said of the id, tombstones aside.
    @staticmethod
    def has_unsaid(w, m):
        of_tombstones = (("forgot",), ("tombstone",))
        return any(message not in of_tombstones and message[0] != "hello" and message != ("end", 0)
                   for message in w.up[m])

    # Not while the home believes that it hears from this member, or may come to do so.
    def may_ask_all(self, w, m):
        d = self.directory(w, m)
        return self.broken == "ask at once" or not d or (d.stream[m] == CLOSED and not w.up[m])

    # Members to ask, and whether `not_found` is said if they have nothing: holders; those that may be about
    # to have it; the one that makes it; those that may have it unknown to the home; those
    # that have not ended a report.
    def look_up(self, w, home, m):
        d = self.directory(w, home)
        holders = sum(1 << n for n in MEMBERS if d.holder[n] and not (d.holder[n] == FIRST and w.tomb[home]))
        holders |= 1 << home if w.copy[home] else 0
        may = d.unsure
        if self.broken != "incomplete knows":
            may |= ALL & ~d.heard
        if self.broken != "nothing to come":
            may |= d.coming | (1 << home if w.get[home] else 0)
        if self.broken != "claims hold nothing":
            may |= sum(1 << n for n in MEMBERS if d.claim[n])
        others = ALL & ~(1 << m)
        return (holders | may) & others, not holders & others

    def answer(self, w, m, to_ask, is_final):
        since = w.get[m][1] if w.get[m] else w.sealed
        w.get[m] = ("ask", since, to_ask, is_final)
        if not to_ask:
            self.asked(w, m)

    def asked(self, w, m):
        if w.get[m][3]:
            self.not_found(w, m)
        self.gave_up(w, m)

    def gave_up(self, w, m):
        w.get[m] = None
        self.say(w, m, "gave up")

    # The ask and its answer.
    def ask(self, w, m, other):
        _, since, to_ask, is_final = w.get[m]
        copy = w.copy[other]
        if w.version[m] != w.version[other] and self.broken != "any list":
            self.gave_up(w, m)
        elif copy and not (copy == FIRST and w.tomb[m]):
            w.get[m] = ("pull", copy)
            w.passed[other] |= 1 << m
            if w.tomb[other] and not w.tomb[m] and self.broken != "pull without tombstone":
                self.told_drop(w, m)
        elif w.get[other] and w.get[other][0] == "pull":
            self.gave_up(w, m)
        else:
            passed = 0 if self.broken == "passed to none" else w.passed[other]
            w.get[m] = ("ask", since, (to_ask & ~(1 << other) | passed) & ~(1 << m), is_final)

    def pulled(self, w, m):
        birth = w.get[m][1]
        w.get[m] = None
        if w.copy[m] or w.made[m]:
            self.say(w, m, "gave up")
            return
        w.copy[m] = birth
        self.say(w, m, "publish", birth)

    # --- The stream, as the member has it ---

    def hello(self, w, m):
        w.stream[m] = HELLO
        w.up[m] = ()
        # The report has pulls alone: a get that was asking before asks again.
        if w.get[m] and w.get[m][0] == "ask" and self.broken != "asks go over":
            w.get[m] = None
        coming = w.get[m] is not None and w.get[m][0] == "pull"
        if self.broken == "sealed first":
            self.say(w, m, "hello", w.ident[m], w.tomb[m], 0, coming)
            self.say(w, m, "hold", w.copy[m])
            return
        made = 0 if self.broken == "claims unsaid" else w.made[m]
        tomb = 0 if self.broken == "tombstones last" else w.tomb[m]
        self.say(w, m, "hello", w.ident[m], tomb, made, coming)

    def report(self, w, m):
        if self.broken == "sealed first":
            return self.report_claims(w, m)
        w.stream[m] = REPORTED
        self.say(w, m, "end", w.copy[m])
        if self.broken == "tombstones last" and w.tomb[m]:
            self.say(w, m, "tombstone")

    # Broken: sealed objects were listed with the hello, claims are now, and changes stand behind the end.
    def report_claims(self, w, m):
        w.stream[m] = REPORTED
        for at, message in enumerate(w.up[m]):
            if message[0] == "hold":
                end = (("made", w.made[m]), ("end",) + message[1:])
                w.up[m] = w.up[m][:at] + end + w.up[m][at + 1:]

    def take_down(self, w, m):
        (what, *rest), w.down[m] = w.down[m][0], w.down[m][1:]
        getattr(self, "told_" + what)(w, m, *rest)

    def told_ended(self, w, m):
        w.stream[m] = ENDED
        w.ready[m] = 1

    def told_refused(self, w, m):
        w.want[m] = 0

    def told_grant(self, w, m, birth):
        w.want[m] = 0
        if w.makers[m] == birth:
            w.made[m] = birth

    def take_found(self, w, m):
        (_, to_ask, is_final), w.look[m] = w.look[m], 0
        if w.get[m] and w.get[m][0] == "look":
            self.answer(w, m, to_ask, is_final and (w.get[m][2] or not to_ask))

    def told_wrong(self, w, m, birth):
        if w.copy[m] != birth:
            return
        if not (birth == FIRST and w.deleted):
            raise Broken("a good copy is dropped")
        self.drop(w, m)

    # Tombstone, pulls, copy, and only then the acknowledgement. The same where another member passes it on.
    def told_drop(self, w, m):
        if self.broken != "no tombstone":
            w.tomb[m] = 1
        if w.get[m] == ("pull", FIRST) and self.broken != "pulls go on":
            self.gave_up(w, m)
        if w.copy[m] == FIRST:
            self.drop(w, m)
        self.done(w, m, "ack")

    def told_forget(self, w, m):
        w.tomb[m] = 0
        self.done(w, m, "forgot")

    # What was told is done: said behind all that the member said before.
    def done(self, w, m, what):
        if self.broken == "beside the stream" and w.stream[m] != CLOSED:
            getattr(self, "took_" + what)(w, self.home(w, m), self.directory(w, m), m)
        else:
            self.say(w, m, what)

    # --- The home ---

    def take_up(self, w, m):
        (what, *rest), w.up[m] = w.up[m][0], w.up[m][1:]
        getattr(self, "took_" + what.replace(" ", "_"))(w, self.home(w, m), self.directory(w, m), m, *rest)

    def took_hello(self, w, home, d, m, ident, tomb, made, coming):
        self.left_by(d, m)
        d.stream[m] = HELLO
        if self.broken == "sure at hello":
            d.unsure &= ~(1 << m)
        if d.ident[m] != ident and self.broken != "acks of the dead":
            d.acks &= ~(1 << m)
            d.forgot &= ~(1 << m)
        if d.ident[m] != ident:
            d.ident[m] = ident
            birth, d.holder[m], d.claim[m] = d.holder[m], 0, 0
            self.vanished(w, home, d, birth)
        d.claim[m] = made if made else (d.claim[m] | 4 if d.claim[m] else 0)
        if coming:
            d.coming |= 1 << m
            d.fresh |= 1 << m
        if tomb and not w.tomb[home]:
            self.store_tombstone(w, home, d)
        elif w.tomb[home] and not d.acks >> m & 1:
            self.tell(w, m, "drop")
        elif w.tomb[home] and d.acks == ALL:
            d.forgot |= 0 if tomb else 1 << m
            if tomb:
                self.tell(w, m, "forget")
            self.forget(w, home, d)

    def took_tombstone(self, w, home, d, m):
        if not w.tomb[home]:
            self.store_tombstone(w, home, d)
        elif d.acks == ALL:
            self.tell(w, m, "forget")

    def took_made(self, w, home, d, m, made):
        d.claim[m] = made if made else d.claim[m]

    def took_end(self, w, home, d, m, copy):
        d.stream[m] = ENDED
        self.has(w, home, d, m, copy)
        d.claim[m] = 0 if d.claim[m] & 4 else d.claim[m]
        d.coming &= ~(1 << m) | d.fresh
        d.fresh &= ~(1 << m)
        d.heard |= 1 << m
        d.unsure &= ~(1 << m)
        self.tell(w, m, "ended")

    # A member has this now, or nothing.
    def has(self, w, home, d, m, birth):
        if birth == FIRST and w.tomb[home]:
            birth = 0
        if birth and self.births(w, home, d) - {birth}:
            self.tell(w, m, "wrong", birth)
            birth = 0
        had, d.holder[m] = d.holder[m], birth
        if had != birth:
            self.vanished(w, home, d, had)

    def took_publish(self, w, home, d, m, birth):
        if d.claim[m] & 3 == birth:
            d.claim[m] = 0
        self.comes_no_more(d, m)
        self.has(w, home, d, m, birth)

    # Of a birth the home has one word of each member: that it has it, or that a copy comes.
    def took_withdraw(self, w, home, d, m):
        self.comes_no_more(d, m)
        self.has(w, home, d, m, 0)

    def took_gave_up(self, w, home, d, m):
        self.comes_no_more(d, m)

    @staticmethod
    def comes_no_more(d, m):
        d.coming &= ~(1 << m)
        d.fresh &= ~(1 << m)

    def took_claim(self, w, home, d, m, birth):
        if self.may_make(w, home, d, m, birth):
            d.claim[m] = birth
            self.tell(w, m, "grant", birth)
            if self.broken == "grant overtakes":
                w.down[m] = w.down[m][-1:] + w.down[m][:-1]
        else:
            self.tell(w, m, "refused")

    def take_look(self, w, m):
        d = self.directory(w, m)
        to_ask, is_final = self.look_up(w, self.home(w, m), m)
        if to_ask and not (d.holder[m] and self.broken == "old words stand"):
            d.coming |= 1 << m
            d.fresh |= 1 << m if d.stream[m] == HELLO else 0
        w.look[m] = ("found", to_ask, is_final)

    # --- Deleting ---

    def delete(self, w, home):
        w.deletes -= 1
        w.deleted = 1
        self.store_tombstone(w, home, self.directory(w, home))

    def store_tombstone(self, w, home, d):
        w.tomb[home] = 1
        d.acks = d.forgot = 1 << home
        d.holder = [0 if birth == FIRST else birth for birth in d.holder]
        d.unsure = 0
        d.coming &= d.open_streams(HELLO)
        if w.copy[home] == FIRST:
            w.copy[home] = 0
        if w.get[home] == ("pull", FIRST) and self.broken != "pulls go on":
            w.get[home] = None
        for m in MEMBERS:
            if m != home and d.stream[m] != CLOSED:
                self.tell(w, m, "drop")

    def took_ack(self, w, home, d, m):
        if not w.tomb[home]:
            if self.broken != "forget unsaid":
                self.tell(w, m, "forget")
            return
        d.acks |= 1 << m
        if d.acks == ALL:
            w.told = 1
        if d.acks == ALL or self.broken == "forget before all":
            for n in MEMBERS:
                if n != home and d.stream[n] != CLOSED and d.acks >> n & 1:
                    self.tell(w, n, "forget")
        if self.broken == "forget before all":
            w.tomb[home] = 0

    def took_forgot(self, w, home, d, m):
        d.forgot |= 1 << m
        self.forget(w, home, d)

    @staticmethod
    def forget(w, home, d):
        if d.acks == ALL and d.forgot == ALL:
            w.tomb[home] = 0

    # --- What goes wrong ---

    def crash(self, w, m):
        w.crashes -= 1
        self.restart(w, m)

    def loss(self, w, m):
        w.losses -= 1
        w.copy[m] = w.made[m] = w.tomb[m] = 0
        w.ident[m] += 1
        self.restart(w, m)

    def restart(self, w, m):
        version = w.version[m]
        if m == self.homes[version - 1]:
            self.leave(w, m, version)
            w.homes[version - 1] = Directory(home=m)
        self.ends(w, m)
        w.get[m] = None
        w.passed[m] = w.ready[m] = 0
        if self.broken == "ask over a restart":
            return
        for n in MEMBERS:
            if w.get[n] and w.get[n][0] == "ask":
                self.gave_up(w, n)
            elif w.get[n] and w.get[n][0] == "look":
                w.get[n] = ("look", w.get[n][1], False)

    # The home's process ends, or its list does: so do all streams to it, which each member sees later.
    @staticmethod
    def leave(w, home, version):
        for n in MEMBERS:
            if n != home and w.version[n] == version:
                w.cut[n] = 1 if w.stream[n] != CLOSED else 0
                w.up[n] = ()
                w.look[n] = 0
        w.homes[version - 1] = None

    def change(self, w, m):
        if m == self.homes[0]:
            self.leave(w, m, 1)
        self.ends(w, m)
        w.up[m] = ()
        if w.get[m] and w.get[m][0] != "pull":
            w.get[m] = None
        w.version[m] = 2
        w.ready[m] = 0
        w.changes -= 1
        if m == self.homes[1]:
            w.homes[1] = Directory(home=m)
