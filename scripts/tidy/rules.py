# SPDX-License-Identifier: Apache-2.0
"""What the checks go by, and what is allowed in spite of them."""

LINE_LIMIT = 110
FUNCTION_LIMIT = 70
HEADER_LIMIT = 250
SOURCE_AIM = 500
SOURCE_LIMIT = 800

# A layer may include itself and what has a smaller number; equal numbers are sisters, and strangers.
LAYER_RANK = {
    "base": 0, "arguments": 1, "documents": 1, "runtime": 1, "memory": 2, "storage": 3, "fabric": 3, "rpc": 4,
    "prism": 5, "cluster": 6, "kv": 7, "block": 7, "txn": 8, "object": 8, "graph": 8, "client": 9, "node": 10,
    "doors": 11,
}

# Rooms: what a folder inside a layer, or bench/, may include of the others there. A folder that is not named
# here belongs to the one above it; what stands beside the rooms is free. `testing` may include everything;
# only tests, bench/ and other folders of that name include it.
ROOMS = {
    "kv": {
        "layout": [],
        "functions": ["layout"],
        "direct": ["layout"],
        # A row of a batch says which functions it means.
        "calls": ["layout", "functions"],
        "chains": ["layout", "calls"],
        "remote": ["layout", "calls"],
        "owner": ["layout"],
        # What a table has of transactions and numbered writes is nested in it, and changes it.
        "owner/table": ["layout", "functions", "owner", "owner/parts", "owner/numbered"],
        "owner/parts": ["layout", "direct", "owner", "owner/table"],
        "owner/chains": ["layout", "owner", "owner/table"],
        "owner/snapshot": ["layout", "direct", "owner", "owner/table"],
        "owner/service": ["layout", "functions", "direct", "owner", "owner/table", "owner/parts"],
        "owner/transactions": ["layout", "owner", "owner/table", "owner/parts", "owner/service"],
        "owner/numbered": ["layout", "functions", "owner", "owner/table", "owner/parts", "owner/service"],
        "designs": ["layout", "calls"],
    },
    "object": {
        "layout": [],
        "direct": ["layout"],
        "calls": ["layout"],
        "owner": ["layout"],
    },
    "node": {
        "doors": [],
        "config": ["doors"],
        "observe": [],
        "space": ["config"],
        "hosted": ["config", "space", "observe"],
        "hosted_kv": ["config", "observe", "hosted"],
        "hosted_objects": ["config", "observe", "hosted"],
        "durable": ["config", "space", "observe", "hosted"],
        "redis": ["config"],
        "doctor": ["config", "durable", "redis"],
        "peers": [],
        "server": [
            "config", "space", "hosted", "hosted_kv", "hosted_objects", "durable", "observe", "doctor",
            "peers", "redis",
        ],
        "keeper": ["config", "space", "hosted", "durable", "server", "doors"],
    },
    "doors": {
        # What it tells people is counted and kept where commands run, and is commands itself.
        "redis": ["admin", "writes", "exec", "messages"],
        "writes": ["redis"],
        "exec": ["redis", "writes", "admin"],
        "admin": ["redis", "exec", "messages"],
        # Its commands are commands, and connections are what hears them.
        "messages": ["redis", "admin"],
        "net": ["redis", "admin"],
        "process": ["redis", "net"],
    },
    "bench": {
        "measure": [],
        "report": ["measure"],
        "load": ["measure"],
        "sides": ["measure", "load"],
        "fabric": ["measure", "report", "sides"],
        "bars": ["measure", "report", "load", "sides", "fabric"],
        "suites": ["measure", "report", "load", "sides", "bars"],
        "kv": ["measure", "report", "load", "sides", "suites"],
        "growth": ["measure", "report", "load", "sides", "bars", "suites"],
        "txn": ["measure", "report", "load", "sides", "bars", "suites"],
        "ranks": ["measure", "report", "load", "sides", "bars"],
    },
}

# Headers that CMake writes stand beside the rooms, and any room may include them.
WRITTEN_BY_CMAKE = ("bench/commit.h", "bench/suite_texts.h")

# What a folder must not know although its layer may.
STRANGERS = {"refract/client/link/": {"kv", "prism"}}

# Files in one folder, beyond which a reader does not find a thing by the folder's name.
FOLDER_LIMIT = 45

# How many sources may include a header of another library that costs a second or more, and what to use
# instead. refract/documents and refract/arguments have the one that the programs need; of JSON, tests that
# judge what we write read it with the library itself.
HEAVY_HEADERS = {
    "CLI/CLI.hpp": (1, "refract/arguments/command.h"),
    "toml++/toml.h": (1, "refract/documents/toml.h"),
    "nlohmann/json.hpp": (8, "refract/documents/json.h"),
}

# What programs include, and the layers whose headers that may bring along. cmake/install.cmake installs them.
PUBLIC_HEADERS = {
    "refract/client/client.h": ("base", "client"),
    "refract/client/transactions/batch.h": ("base", "client"),
    "refract/client/transactions/transaction.h": ("base", "client"),
    "refract/client/verified.h": ("base", "client"),
    "refract/client/async_client.h": ("base", "runtime", "client"),
    "refract/client/reader.h": ("base", "memory", "kv", "client"),
    "refract/client/objects.h": ("base", "client"),
    "refract/client/objects_c.h": ("client",),
}

# The layers that may name a provider; all others know the contract alone.
PROVIDER_USERS = {"client", "node", "doors"}

# (check, path or folder/, the reason). Each must excuse something, or tidy asks for its removal.
EXCEPTIONS = [
    ("thread", "apps/refract/transactions/bank.cc", "it shows blocking transactions of several threads"),
    ("feature-ifdef", "refract/client/objects_c.h", "C and C++ read it, and only C++ knows extern"),
    ("throw", "python/ext/", "pybind11 has the exceptions of Python as those of C++"),
    ("shared-ptr", "python/ext/", "what Python sees of a buffer has as many owners as Python likes"),
    ("os-clock", "python/ext/gil.h", "the public headers of the client have no clock"),
    ("line-length", "python/ext/errors.def", "a row is one line, as in codes.def"),
    ("line-length", "refract/base/codes.def", "a row is one line, so that it can be searched for"),
    ("dead-file", ".ci/canary_fuzz.cc", "scripts/fuzz builds it, outside of CMake"),
    ("feature-ifdef", "refract/memory/remote_visible.h", "racing copies need another form under TSan"),
    ("feature-ifdef", "refract/kv/layout/same_bytes.h", "racing reads need another form under TSan"),
    ("feature-ifdef", "refract/kv/direct/mapped_memory.h", "racing reads need another form under TSan"),
    ("feature-ifdef", "refract/kv/layout/slot_match.h", "a vector load is a race to TSan, and needs SSE2"),
    ("feature-ifdef", "refract/memory/streaming_copy.h", "racing copies need another form under TSan"),
]
