# SPDX-License-Identifier: Apache-2.0
"""The order of one connection's operations, where the owner refuses some of them for now.

They are sent over one channel, which keeps their order, before the first is answered. A connection that
breaks takes the answers along; what was under way may still be executed until the session is opened again. A
server that is killed forgets its bar; what became of an operation tells its record.
"""
from typing import NamedTuple

from schedules import Broken

# What the door knows of one. NEW: it was not sent over this connection.
NEW, SENT, REFUSED, WITHDRAWN, DONE, GIVEN_UP = (
    "new",
    "sent",
    "refused",
    "withdrawn",
    "done",
    "given up",
)


# `channel`: numbers on their way to the owner; -n: n is withdrawn. `answers`: {number, state} on their way
# back. `bar`: those that were refused, or wait, and have no outcome, in their order: the first alone passes.
class Pipeline(NamedTuple):
    known: tuple = (NEW, NEW, NEW)
    channel: tuple = ()
    answers: tuple = ()
    bar: tuple = ()
    waiting: int = 0
    executed: tuple = ()
    refusals: int = 2
    waits: int = 1
    withdrawals: int = 1
    is_connected: bool = True
    breaks: int = 1
    kills: int = 1

    def knows(self, number, what):
        known = list(self.known)
        known[number - 1] = what
        return self._replace(known=tuple(known))

    def all_known(self, *what):
        return [number for number, known in enumerate(self.known, 1) if known in what]


class Tags:
    def __init__(self, broken):
        self.broken = broken

    @staticmethod
    def world(state):
        return state

    @staticmethod
    def is_quiet(s):
        if any(number in s.executed for number in s.all_known(GIVEN_UP)):
            raise Broken("one was executed whose client was told that it was not")
        if s.executed != tuple(sorted(set(s.executed))):
            raise Broken(f"executed in this order: {s.executed}")
        is_over = len(s.all_known(DONE, GIVEN_UP)) == len(s.known)
        return is_over and s.is_connected and not (s.channel or s.answers or s.bar)

    def steps(self, _, s):
        yield from self.door(s) if s.is_connected else self.opens_again(s)
        yield from self.owner(s)
        if s.answers:
            (number, known), rest = s.answers[0], s.answers[1:]
            if known == REFUSED and number in s.all_known(WITHDRAWN):
                known = WITHDRAWN
            yield f"the door hears of {number}: {known}", s._replace(answers=rest).knows(number, known)
        if s.breaks and s.is_connected:
            yield "THE CONNECTION BREAKS", s._replace(breaks=s.breaks - 1, is_connected=False, answers=())
        if s.kills:
            yield "THE SERVER IS KILLED", self.ended(s)._replace(kills=s.kills - 1, is_connected=False)

    # --- The door: new ones in their order, refused ones whenever it likes ---

    def door(self, s):
        new = s.all_known(NEW)
        for number in new if self.broken == "new ones in any order" else new[:1]:
            yield f"the door sends {number}", self.sends(s, number)
        for number in s.all_known(REFUSED):
            yield f"the door sends {number} again", self.sends(s, number)
        for number in s.all_known(SENT, REFUSED) if s.withdrawals else ():
            after = s._replace(withdrawals=s.withdrawals - 1)
            if self.broken == "given up silently":
                yield f"the door forgets {number}", after.knows(number, GIVEN_UP)
                continue
            known = GIVEN_UP if self.broken == "told before it is withdrawn" else WITHDRAWN
            yield f"the door withdraws {number}", after.knows(number, known)._replace(
                channel=(*s.channel, -number)
            )

    @staticmethod
    def sends(s, number):
        return s.knows(number, SENT)._replace(channel=(*s.channel, number))

    # The old connection ends, and the door asks about all that it has sent.
    def opens_again(self, s):
        keeps = self.broken == "what waits outlives its connection"
        after = self.ended(s)._replace(is_connected=True, waiting=s.waiting if keeps else 0)
        for number in s.all_known(SENT, REFUSED, WITHDRAWN):
            missing = GIVEN_UP if number in s.all_known(WITHDRAWN) else NEW
            if self.broken == "refused ones stay refused" and number in s.all_known(REFUSED):
                missing = REFUSED
            after = after.knows(number, DONE if number in s.executed else missing)
        yield "the session is opened again", after

    @staticmethod
    def ended(s):
        return s._replace(channel=(), answers=(), bar=(), waiting=0)

    # --- The owner ---

    def owner(self, s):
        if s.waiting:
            yield f"{s.waiting} has waited", self.executes(s._replace(waiting=0), s.waiting)
            if s.refusals:
                yield f"{s.waiting} has waited, and is refused", self.refuses(
                    s._replace(waiting=0, refusals=s.refusals - 1), s.waiting
                )
        if not s.channel:
            return
        number, left = s.channel[0], s._replace(channel=s.channel[1:])
        if number < 0:
            yield f"{-number} is withdrawn", self.takes_out(left, -number)
        elif s.bar and s.bar[0] != number and self.broken != "no bar":
            yield f"{number} is behind {s.bar[0]}, and refused", self.refuses(left, number)
        else:
            yield f"{number} is executed", self.executes(left, number)
            if s.refusals:
                yield f"{number} is refused", self.refuses(left._replace(refusals=s.refusals - 1), number)
            if s.waits and not s.waiting:
                after = left if self.broken == "no bar while one waits" else self.barred(left, number)
                yield f"{number} waits", after._replace(waits=s.waits - 1, waiting=number)

    def executes(self, s, number):
        after = s._replace(executed=(*s.executed, number))
        return self.answered(self.lifted(after, number), number, DONE)

    def refuses(self, s, number):
        return self.answered(self.barred(s, number), number, REFUSED)

    # It may have been executed, and takes one out that waits.
    def takes_out(self, s, number):
        if number in s.executed:
            return self.answered(s, number, DONE)
        waiting = 0 if s.waiting == number else s.waiting
        return self.answered(self.lifted(s._replace(waiting=waiting), number), number, GIVEN_UP)

    def barred(self, s, number):
        if self.broken == "a bar of one" and s.bar:
            return s
        return s._replace(bar=tuple(sorted({*s.bar, number})))

    @staticmethod
    def lifted(s, number):
        return s._replace(bar=tuple(one for one in s.bar if one != number))

    @staticmethod
    def answered(s, number, known):
        return s._replace(answers=(*s.answers, (number, known))) if s.is_connected else s
