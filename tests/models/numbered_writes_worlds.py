# SPDX-License-Identifier: Apache-2.0
"""The small worlds of numbered_writes_model.py: how each begins, and what may happen in it."""
from numbered_writes_state import Entry, Memory, State
from numbered_writes_tags import Pipeline

INCREMENT, ERASE, IF_ABSENT = "increment", "erase", "put if absent"


# `log`: "none", "everysec", "always"; `plain`: what another writer does; `is_there`: the key is there at
# first.
def world_of(*operations, log="none", plain="", is_there=False, deaths=False, **budgets):
    has_log = log != "none"
    rules = {
        "operations": operations,
        "has_log": has_log,
        "is_always": log == "always",
        "all_may_die": deaths,
    }
    memory = Memory()
    if is_there:
        first = ((1, 30, 0),) if has_log else ()
        memory = Memory(slots=(Entry(1, 30), 0), stamp=2, log=first, synced=len(first))
    return rules, State(memory=memory, told=("new",) * len(operations), plain=plain, **budgets)


TAGS = "one connection's order"

WORLDS = {
    "increment, two kills, an eviction": world_of(INCREMENT, kills=2, evictions=1),
    "increment, everysec, two kills, an erase": world_of(INCREMENT, log="everysec", plain="erase", kills=2),
    "increment, everysec, an eviction, all die": world_of(
        INCREMENT, log="everysec", deaths=True, evictions=1, is_there=True
    ),
    "increment, always, the host dies": world_of(
        INCREMENT, log="always", deaths=True, plain="put", kills=2
    ),
    "increment, everysec, its ring is lost": world_of(
        INCREMENT, log="everysec", kills=2, ring_losses=1, evictions=1
    ),
    "increment that waits": world_of(INCREMENT, waits=1, breaks=2, plain="erase"),
    "two increments, an erase beside": world_of(INCREMENT, INCREMENT, plain="erase"),
    "two increments, two lost connections": world_of(INCREMENT, INCREMENT, breaks=2, kills=0),
    "put if absent, erase": world_of(IF_ABSENT, ERASE, is_there=True, kills=2, breaks=2),
    "erase, increment, everysec": world_of(
        ERASE, INCREMENT, log="everysec", is_there=True, kills=2, evictions=1
    ),
    "erase, always, all die": world_of(
        ERASE, log="always", deaths=True, is_there=True, kills=2, plain="put"
    ),
    TAGS: ({"has_tags": True}, Pipeline()),
}

# All states only with --large.
LARGE = {
    "two increments, everysec, two kills, a put beside": world_of(
        INCREMENT, INCREMENT, log="everysec", plain="put", kills=2, evictions=1
    ),
    "put if absent, increment, always, the host dies": world_of(
        IF_ABSENT, INCREMENT, log="always", deaths=True, kills=2, is_there=True, evictions=1
    ),
    "erase, put if absent, three kills": world_of(ERASE, IF_ABSENT, kills=3, is_there=True, evictions=1),
    "increment, everysec, three kills, its ring is lost twice": world_of(
        INCREMENT, log="everysec", kills=3, ring_losses=2, evictions=1, plain="erase"
    ),
}

NO_LOG = "increment, two kills, an eviction"
EVERYSEC = "increment, everysec, two kills, an erase"
RING = "increment, everysec, its ring is lost"

# What a broken rule is, and the world in which its harm is found.
MUTATIONS = {
    "number first": (
        "a record's number is stored in front of its words",
        "increment, everysec, an eviction, all die",
    ),
    "log first": ("the log's record stands in front of the session's", EVERYSEC),
    "slot first": ("the slot is stored in front of the session's record", NO_LOG),
    "slot before log": (
        "the slot is stored in front of the log's record",
        "increment, everysec, an eviction, all die",
    ),
    "mark before slot": ("a record is marked in front of the slot's store", NO_LOG),
    "no mark": ("records have no mark, and recovery compares the last one", NO_LOG),
    "mark behind the split": ("a record is marked behind the split that its insertion began", NO_LOG),
    "marked ones are compared": ("recovery compares records that are marked", NO_LOG),
    "the last is believed": ("recovery takes a record without a mark for executed", NO_LOG),
    "the log alone tells": ("recovery does not look at the slot", NO_LOG),
    "the slot alone tells": ("recovery repeats the log's last change and drops its record", EVERYSEC),
    "redo splits before the mark": ("what recovery repeats splits in front of the mark", RING),
    "mark before redo": ("recovery marks the record in front of what it repeats", RING),
    "refusals unrecorded": ("a refusal leaves no record", "put if absent, erase"),
    "dropped when answered": ("a record goes when it is answered", NO_LOG),
    "records end with the connection": ("records go when their connection ends", "increment that waits"),
    "unknown is no": ("a session that is not known is told: not executed", NO_LOG),
    "ended calls run": ("a call of a connection that has ended is executed", "increment that waits"),
    "waiting lives on": ("a write that waits outlives its connection", "increment that waits"),
    "told unconfirmed": (
        "an outcome is told that the log has not confirmed",
        "increment, always, the host dies",
    ),
    "look first": (
        "a function runs on what its own buffer evicted",
        "increment, everysec, an eviction, all die",
    ),
    "acknowledged once": (
        "an acknowledgement whose answer was lost is not sent again",
        "increment that waits",
    ),
    "acknowledged by place": (
        "an acknowledgement names a place, and not the number too",
        "two increments, two lost connections",
    ),
    "no bar": ("a younger operation is executed behind a refused one", TAGS),
    "no bar while one waits": ("a younger operation is executed while an older one waits", TAGS),
    "a bar of one": ("the bar keeps the first that was refused, and none behind it", TAGS),
    "what waits outlives its connection": (
        "an operation that waits is executed behind the end of its connection",
        TAGS,
    ),
    "new ones in any order": ("the door sends new ones in any order", TAGS),
    "refused ones stay refused": ("over a new connection refused ones may come behind new ones", TAGS),
    "given up silently": ("the door does not say that it has given one up", TAGS),
    "told before it is withdrawn": ("the door gives one up before the owner has withdrawn it", TAGS),
}
