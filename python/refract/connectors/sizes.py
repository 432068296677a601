# SPDX-License-Identifier: Apache-2.0
"""How long values are."""

from __future__ import annotations

from collections.abc import Sequence

import refract


def sizes_of(client: refract.Client, keys: Sequence[str]) -> list[int | None]:
    """For each key how many bytes its value has, None where it has none; no value is copied or sent.

    Raises what kept it from being known: Unavailable, DeadlineExceeded.
    """
    sizes: list[int | None] = []
    # Nothing fits into no bytes, and what does not fit says how long it is.
    for outcome in client.get_many_into(keys, [bytearray()] * len(keys)):
        if isinstance(outcome, refract.TooLarge) and outcome.value_bytes is not None:
            sizes.append(outcome.value_bytes)
        elif isinstance(outcome, refract.Error):
            raise outcome
        else:
            sizes.append(outcome)
    return sizes
