# SPDX-License-Identifier: Apache-2.0
"""The steps of the small world of numbered_writes_model.py, and what must hold in it."""
from numbered_writes_owner import Owner
from numbered_writes_state import CHANGED, INDETERMINATE, NOT_EXECUTED, UNCHANGED, Entry, Server, Turn
from numbered_writes_tags import Tags
from numbered_writes_worlds import MUTATIONS
from schedules import Broken

NEW_MEMORY = 100  # So much higher stamps begin.


def model(broken=None, has_tags=False, **rules):
    assert broken is None or broken in MUTATIONS
    return Tags(broken, **rules) if has_tags else Model(broken, **rules)


class Model(Owner):
    @staticmethod
    def world(state):
        return state

    # --- What must hold. Says whether nothing is under way. ---

    def is_quiet(self, s):
        memory, server = s.memory, s.server
        if server and not server.turn and self.has_log and memory.has_ring:
            stamp, value, _ = memory.log[-1] if memory.log else (0, 0, 0)
            if memory.entry() != (Entry(stamp, value) if value else 0):
                raise Broken("table and log say different things")
        is_idle = server and not (server.turn or server.waiting or server.held or s.calls)
        is_told = all(answer not in ("new", "sent", "in doubt") for answer in s.told)
        is_acknowledged = not (s.owed or s.memory.records)
        return bool(is_idle and is_told and is_acknowledged and s.connection and s.plain in ("", "done"))

    def told(self, s, number, answer, place):
        if answer[0] in (CHANGED, UNCHANGED) and answer != s.decided_answer(number):
            raise Broken(f"{number} was told {answer}, and became {s.decided_answer(number)}")
        if self.all_may_die and answer[0] == CHANGED:
            self.must_be_logged(s, number, s.memory.log)
        return s.is_told(number, answer)._replace(owed=(*s.owed, (number, place, False)))

    @staticmethod
    def must_be_logged(s, number, log):
        stamp = next(stamp for one, stamp in s.effects if one == number)
        if not any(stamp == one for one, _, _ in log):
            raise Broken("what was told to be executed is lost")

    # --- All steps ---

    def steps(self, _, s):
        if s.server:
            if s.server.turn:
                yield from self.turn_steps(s)
            else:
                yield from self.client_steps(s)
                yield from self.owner_begins(s)
            yield from self.answers(s)
            if self.is_always and s.memory.synced < len(s.memory.log):
                yield "the log syncs a record", s.at_memory(synced=s.memory.synced + 1)
        else:
            steps = ("finish split", "decide", "ready")
            yield "the server starts", s._replace(server=Server(turn=Turn("recovery", steps), connection=0))
        yield from self.faults(s)

    def is_confirmed(self, memory, position):
        return not self.is_always or memory.synced >= position

    # --- The client ---

    def client_steps(self, s):
        if not s.connection:
            yield self.resumed(s)
            return
        doubted = [number for number, answer in enumerate(s.told, 1) if answer == "in doubt"]
        if doubted:
            yield from self.asks(s, doubted[0])
            return
        for number, answer in enumerate(s.told, 1):
            if answer == "new":
                yield f"the client sends {number}", self.sent(s, number)
                break
        for number, place, is_under_way in s.owed:
            if not is_under_way:
                owed = (*(one for one in s.owed if one[0] != number), (number, place, True))
                yield f"the client acknowledges {number}", s._replace(
                    owed=owed, calls=(*s.calls, (s.connection, number, place))
                )

    @staticmethod
    def sent(s, number):
        return s.is_told(number, "sent")._replace(calls=(*s.calls, (s.connection, number, -1)))

    # The old connection ends, whatever it has under way.
    def resumed(self, s):
        connection = s.last_connection + 1
        keeps = self.broken == "waiting lives on"
        server = s.server._replace(
            connection=connection, held=(), waiting=s.server.waiting if keeps else ()
        )
        after = s._replace(connection=connection, last_connection=connection, server=server)
        if s.memory.is_known or self.broken == "unknown is no":
            return "the client opens its session again", after.at_memory(is_known=True)
        for number, answer in enumerate(s.told, 1):
            if answer == "in doubt":
                after = after.is_told(number, (INDETERMINATE,))
        return "the client's session is not known", after._replace(owed=()).at_memory(is_known=True)

    def asks(self, s, number):
        memory = s.memory
        record = memory.record(number)
        waits = not self.is_confirmed(memory, len(memory.log)) and self.broken != "told unconfirmed"
        if waits:
            return
        if record:
            yield f"the client hears of {number}: {record.answer}", self.told(
                s, number, record.answer, record.place
            )
            return
        is_known = s.decided_answer(number) is not None
        if is_known and (s.has_effect(number) or s.is_younger_decided(number)):
            raise Broken(f"{number} was executed, and is told: {NOT_EXECUTED}")
        yield f"the client hears of {number}: {NOT_EXECUTED}, and sends it again", self.sent(s, number)

    def answers(self, s):
        for held in s.server.held:
            connection, number, answer, place, position = held
            if self.is_confirmed(s.memory, position):
                left = s.at_server(held=tuple(one for one in s.server.held if one != held))
                if connection == s.connection:
                    left = self.told(left, number, answer, place)
                yield f"{number} is answered: {answer}", left

    # --- What goes wrong ---

    def faults(self, s):
        if s.breaks and s.connection:
            broken = self.without_connection(s)._replace(breaks=s.breaks - 1)
            yield "THE CONNECTION BREAKS", broken
        is_over = s.server and not s.connection
        if is_over and s.server.connection and not s.server.turn:
            yield "the server sees the end of the connection", self.seen_end(s)
        if is_over and not s.server.connection and not s.server.turn and s.memory.is_known:
            yield "A MINUTE PASSES", s.at_memory(is_known=False, records=())
        if s.kills:
            left = s._replace(kills=s.kills - 1)
            if s.server:
                yield "THE SERVER IS KILLED", self.killed(left)
            if s.server and s.ring_losses:
                yield "THE SERVER IS KILLED, ITS RING IS LOST", self.killed(
                    left._replace(ring_losses=s.ring_losses - 1).at_memory(has_ring=False)
                )
            if self.all_may_die:
                for end in range(
                    s.memory.synced if self.is_always else len(s.memory.log), len(s.memory.log) + 1
                ):
                    yield f"ALL IS LOST BUT {end} RECORDS", self.without_memory(left, end)

    def without_connection(self, s):
        told = tuple("in doubt" if answer == "sent" else answer for answer in s.told)
        owed = (
            ()
            if self.broken == "acknowledged once"
            else tuple((number, place, False) for number, place, _ in s.owed)
        )
        return s._replace(connection=0, told=told, owed=owed)

    def seen_end(self, s):
        ended = s.at_server(connection=0, waiting=(), held=())
        if self.broken == "records end with the connection":
            ended = ended.at_memory(records=())
        return ended._replace(calls=())

    def killed(self, s):
        plain = "done" if s.plain == "under way" else s.plain
        return self.without_connection(s)._replace(server=None, calls=(), plain=plain)

    def without_memory(self, s, end):
        log = s.memory.log[:end]
        for number, answer in enumerate(s.told, 1):
            if answer[0] == CHANGED:
                self.must_be_logged(s, number, log)
        stamp, value, _ = log[-1] if log else (0, 0, 0)
        memory = s.memory._replace(
            slots=(Entry(stamp, value) if value else 0, 0),
            is_split=False,
            records=(),
            is_known=False,
            stamp=s.memory.stamp + NEW_MEMORY,
            log=log,
            synced=end,
        )
        return self.killed(s)._replace(memory=memory)
