# SPDX-License-Identifier: Apache-2.0
"""The small worlds of transaction_logs_model.py: how each begins, and what may happen in it."""
from transaction_logs_crossing import CROSSED
from transaction_logs_state import State


# `always`: and not `everysec`; `kills`: how many deaths of anything; `snapshots`: of the home, of the part,
# beside those that mend a log; `later`: whether there is a later write; `loses_rings`: whose rings may be
# lost with a server.
def world_of(always=True, kills=1, snapshots=(0, 0), failures=0, later=True, loses_rings=()):
    deaths = ("server", "all", "host") if always else ("server", "all")
    rules = {"always": always, "deaths": deaths, "loses_rings": loses_rings}
    return rules, State(kills=kills, home_snapshots=snapshots[0], part_snapshots=snapshots[1],
                        failures=failures, later="to come" if later else "none")


CROSSING = "two transactions cross, both logs have failed"

WORLDS = {
    "always, snapshots": world_of(snapshots=(1, 1)),
    "always, two deaths, snapshots": world_of(kills=2, snapshots=(1, 1), later=False),
    "always, two deaths, a later write": world_of(kills=2),
    "always, a log fails": world_of(failures=1),
    "always, both logs fail": world_of(failures=2, later=False),
    "always, the home's ring is lost": world_of(kills=2, loses_rings=("home",)),
    "always, the part's ring is lost": world_of(kills=2, loses_rings=("part",)),
    "everysec, two deaths, snapshots": world_of(always=False, kills=2, snapshots=(1, 1), later=False),
    "everysec, both logs fail": world_of(always=False, failures=2, later=False),
    CROSSING: ({"crosses": True}, CROSSED),
}

# Here broken rules are searched, too, but all states only with --large.
LARGE = {
    "always, two deaths, snapshots, a later write": world_of(kills=2, snapshots=(1, 1)),
    "always, three deaths, snapshots": world_of(kills=3, snapshots=(1, 1)),
    "always, a log fails, snapshots": world_of(failures=1, snapshots=(1, 1)),
    "always, a log fails, two deaths": world_of(failures=1, kills=2),
    "always, both logs fail, a later write": world_of(failures=2),
    "always, both logs fail, snapshots": world_of(failures=2, snapshots=(1, 1), later=False),
    "always, both rings are lost": world_of(kills=2, loses_rings=("home", "part")),
    "always, rings are lost, snapshots": world_of(
        kills=2, loses_rings=("home", "part"), snapshots=(1, 1), later=False),
    "everysec, three deaths, snapshots": world_of(always=False, kills=3, snapshots=(1, 1)),
    "everysec, a log fails, snapshots": world_of(always=False, failures=1, snapshots=(1, 1)),
    "everysec, both logs fail, a later write": world_of(always=False, failures=2),
    "everysec, both logs fail, two deaths": world_of(always=False, failures=2, kills=2),
}

# What a broken rule is, and the world in which its harm is found.
MUTATIONS = {
    "no claim": ("the home appends before it has claimed the word", "always, two deaths, a later write"),
    "claim ignored": ("a part decides against a claimed word", "always, two deaths, a later write"),
    "word first": (
        "the word is stored in front of the record that decides",
        "always, two deaths, a later write"),
    "word first, everysec": (
        "with everysec, the word is stored in front of the record that decides",
        "everysec, two deaths, snapshots"),
    "claim dropped": (
        "a restart does not look for the record of a claimed word",
        "always, two deaths, a later write"),
    "claim in a lost ring": (
        "a restart without the ring drops a claimed word",
        "always, the home's ring is lost"),
    "prepared unconfirmed": (
        "prepare is answered before the log has confirmed it",
        "always, two deaths, a later write"),
    "told unconfirmed": (
        "the client is told yes while the word is unconfirmed",
        "always, two deaths, a later write"),
    "settled unconfirmed": (
        "a part is settled while the word is unconfirmed",
        "always, two deaths, a later write"),
    "no settled": ("a part is settled without a record", "always, a log fails"),
    "no settled, everysec": (
        "with everysec, a part is settled without a record",
        "everysec, two deaths, snapshots"),
    "key first": ("a part's key is stored in front of the record", "everysec, two deaths, snapshots"),
    "failed, unconfirmed": (
        "a part whose log has failed is settled while the word is unconfirmed",
        "always, a log fails"),
    "failed, unrecorded": ("a part whose log has failed is settled", "always, both logs fail"),
    "failed, unrecorded, everysec": (
        "with everysec, a part whose log has failed is settled",
        "everysec, both logs fail"),
    "count nothing": (
        "a word is given out again while a part counts on it",
        "always, two deaths, a later write"),
    "counted until appended": (
        "a part counts on the word until its record is appended",
        "always, two deaths, a later write"),
    "recovered unconfirmed": (
        "a shard has recovered before its log has confirmed what it held",
        "always, the home's ring is lost"),
    "words at once": (
        "words are given out before all shards have recovered",
        "always, the home's ring is lost"),
    "counted unlisted": (
        "the home's snapshot does not list what parts count on",
        "always, a log fails"),
    "counted unlisted, everysec": (
        "with everysec, the home's snapshot does not list what parts count on",
        "everysec, two deaths, snapshots"),
    "prepared unlisted": ("the part's snapshot does not list what is prepared", "always, a log fails"),
    "start alone": (
        "a shard settles what is open before the other one has read its log",
        "always, two deaths, a later write"),
    "start alone, everysec": (
        "with everysec, a shard settles what is open before the other one has read its log",
        "everysec, two deaths, snapshots"),
    "met unsynced": (
        "shards meet before they have synced what they read",
        "always, two deaths, a later write"),
    "served unsynced": (
        "shards serve before they have synced what was open",
        "always, two deaths, snapshots"),
    "none prepared": ("a snapshot waits until nothing is prepared", CROSSING),
    "crossed, unconfirmed": (
        "such a snapshot need not wait, for what is unconfirmed is settled when the log has failed",
        CROSSING),
}
