# SPDX-License-Identifier: Apache-2.0
"""The steps of the small world of directory_model.py, and what must hold in it."""
from directory_home import Home
from directory_member import Member
from directory_state import ALL, CLOSED, ENDED, FIRST, HELLO, MEMBERS, Directory, World
from directory_worlds import MUTATIONS
from schedules import Broken


class Model(Home, Member):
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
