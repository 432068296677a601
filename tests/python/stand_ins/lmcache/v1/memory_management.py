# SPDX-License-Identifier: Apache-2.0
"""The formats of LMCache's memory objects."""

from enum import Enum, auto


class MemoryFormat(Enum):
    UNDEFINED = 0
    KV_2LTD = auto()
    KV_MLA_FMT = auto()
    BINARY_BUFFER = auto()
