#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule of a small directory of objects (docs/design/052-directory.md), message by message.

Three members, one id, at most two births of it. Members make, look up, pull, evict; the home deletes; streams
break, servers are killed, a memory is lost, the list changes, which each member learns at its own time.
Messages of a stream arrive in order. Where it ends, each end sees that by itself, and what was sent may
arrive until then, or not. A look-up and its answer travel beside the stream; an ask and its answer are one
step; the bytes of a pull come later. What only
time can tell is a condition: a member asks all without the home's word when the home, too, has seen the
stream's end.

Without arguments: the rules hold in all states of the small worlds, from each state one is reached in which
nothing is under way, and each broken rule of MUTATIONS is found. --large: larger worlds. --trace NAME: the
shortest schedule in which that broken rule does harm.
"""
import sys

from directory_rules import Model
from directory_worlds import LARGE, MUTATIONS, WORLDS
from schedules import Runs

if __name__ == "__main__":
    sys.exit(Runs(Model, WORLDS, LARGE, MUTATIONS, False).main())
