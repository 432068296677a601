# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the small world of transaction_logs_model.py."""
from transaction_logs_state import FILLS, LOST, RUNS, without_memory, without_process


class Faults:
    def faults(self, s):
        if s.kills:
            left = s._replace(kills=s.kills - 1)
            if "server" in self.deaths:
                yield from self.server_is_killed(left)
            if "all" in self.deaths and s.server != LOST:
                yield from self.all_are_killed(left)
            if "host" in self.deaths:
                yield from self.host_dies(left)
        if s.failures and s.server == RUNS:
            for name in ("home", "part"):
                if not getattr(s, name).failed:
                    yield f"THE {name.upper()}'S LOG FAILS", s.at(name, failed=True)._replace(
                        failures=s.failures - 1)

    # A memory that is half filled is no memory.
    def server_is_killed(self, s):
        if s.server == FILLS:
            yield "THE SERVER IS KILLED", without_memory(s, len(s.home.records), len(s.part.records))
        if s.server == RUNS:
            killed = without_process(s)
            yield "THE SERVER IS KILLED", killed
            for name in self.loses_rings:
                yield f"THE SERVER IS KILLED, THE {name.upper()}'S RING IS LOST", killed.at(
                    name, failed=True, ring_lost=True)

    # Rings are files: they stay, but for those that were lost.
    @staticmethod
    def all_are_killed(s):
        def kept(shard):
            end = len(shard.records)
            return range(shard.synced if shard.ring_lost else end, end + 1)

        for home in kept(s.home):
            for part in kept(s.part):
                yield f"ALL PROCESSES ARE KILLED, THE LOGS HAVE {home} AND {part}", without_memory(
                    s, home, part)

    # Each log keeps what it has synced, and any beginning of the rest.
    @staticmethod
    def host_dies(s):
        for home in range(s.home.synced, len(s.home.records) + 1):
            for part in range(s.part.synced, len(s.part.records) + 1):
                yield f"THE HOST DIES, THE LOGS HAVE {home} AND {part}", without_memory(s, home, part)
