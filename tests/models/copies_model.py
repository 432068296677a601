#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule by which three members keep n copies of an object (docs/design/054-copies.md).

One id and one birth of it, which may be deleted. Each copy has a word {version, n} in its member's memory;
with n > 0 it is bound, and goes only behind the home's yes to a release. The home has the wish, and hears in
each member's stream what that has. Orders to bind and to drop travel by themselves, are lost, or arrive at
any later moment, also behind the end of a stream or of the home's process. Each end of a stream sees its end
by itself.

What only time can tell is left open: the home may order any member that is not counted, at any moment.

What must hold:
- bound: once n copies were counted, so many are bound, less those whose memory was lost, until a lower n is
  wished or the object is deleted. The end of a home's process forgets nothing of that.
- yes: a copy is let go only if n others are bound, or were lost in a way that the home cannot have seen.
- deleted: when all have acknowledged, no member has a copy.
- settles: from each state one is reached in which nothing is under way, the home counts n, as far as there
  are members and a copy, and all bound copies have the wish as their word.

Without arguments: that holds in all states of the small worlds, and each broken rule of MUTATIONS is found.
--large: larger worlds. --trace NAME: the shortest schedule in which that broken rule does harm.
"""
import sys

from copies_rules import Model
from copies_worlds import LARGE, MUTATIONS, WORLDS
from schedules import Runs

if __name__ == "__main__":
    sys.exit(Runs(Model, WORLDS, LARGE, MUTATIONS, True).main())
