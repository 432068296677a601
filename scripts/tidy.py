#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses what docs/STYLE.md forbids and no compiler sees.

    scripts/tidy.py              all files of the repository; exit code 1 when something is wrong
    scripts/tidy.py PATH ...     reports only what is found in these files or folders
    scripts/tidy.py --list       the checks, one line each

The checks are in scripts/tidy/, what they go by and the exceptions in scripts/tidy/rules.py.
"""

import sys

sys.dont_write_bytecode = True
from tidy import main  # noqa: E402  The package beside this file, which stands first on the path.

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
