# SPDX-License-Identifier: Apache-2.0
"""What a member does in the small world of directory_model.py: it makes, gets, and keeps its stream."""
from directory_state import ALL, CLOSED, ENDED, FIRST, HELLO, REPORTED
from schedules import Broken


class Member:
    # --- Making ---

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
