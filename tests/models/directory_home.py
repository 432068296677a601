# SPDX-License-Identifier: Apache-2.0
"""What a home does in the small world of directory_model.py: what it grants, answers, and is told by members,
and how it deletes."""
from directory_state import ALL, CLOSED, ENDED, FIRST, HELLO, MEMBERS


class Home:
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

    # Where the last holder goes, those whose streams are closed may have what was pulled from it.
    def vanished(self, w, home, d, birth):
        if birth and birth not in self.births(w, home, d, False) and self.broken != "nothing unsure":
            if not (birth == FIRST and w.tomb[home]):
                d.unsure |= ALL & ~d.open_streams()

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

    # --- What members say ---

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
