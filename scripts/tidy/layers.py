# SPDX-License-Identifier: Apache-2.0
"""Which layer may know which."""

import re

from tidy.rules import HEAVY_HEADERS, LAYER_RANK, PROVIDER_USERS, PUBLIC_HEADERS, ROOMS, STRANGERS, \
    WRITTEN_BY_CMAKE
from tidy.tree import Violation, includes, is_test, layer_of, line_of, provider_of


def check_layers(tree):
    """layer: an include goes to a lower layer, and a provider knows no other provider"""
    for path in tree.cpp():
        layer = layer_of(path)
        if layer is None:
            continue
        if layer not in LAYER_RANK:
            yield Violation(path, 1, "layer", no_layer(layer))
            continue
        for line, included in includes(tree, path):
            message = layer_fault(path, layer, included)
            if message:
                yield Violation(path, line, "layer", message)


def no_layer(name):
    return f"'{name}' is no layer: see LAYER_RANK in scripts/tidy/rules.py"


def layer_fault(path, layer, included):
    if not included.startswith("refract/"):
        if included.startswith("tests/"):
            return f"{layer} must not know {included}, which stands above it: a layer's `testing` may have it"
        return f'write includes of ours from the root: "refract/...", not "{included}"'
    target = layer_of(included)
    if target is None:
        return None
    if target not in LAYER_RANK:
        return no_layer(target)
    if target != layer and LAYER_RANK[target] >= LAYER_RANK[layer]:
        return f"{layer} must not know {target}, which does not stand below it"
    for folder, strangers in STRANGERS.items():
        if path.startswith(folder) and target in strangers:
            return f"{folder} must not know {target}"
    provider = provider_of(included)
    if provider is None or is_test(path) or provider_of(path) == provider:
        return None
    if provider_of(path) is not None:
        return f"a provider must not know another: {provider_of(path)} includes {provider}"
    if layer == "fabric" and not path.startswith("refract/fabric/registry."):
        return f"of fabric, only the registry may name a provider ({provider})"
    if layer != "fabric" and layer not in PROVIDER_USERS:
        return f"{layer} must use the contract of fabric, not the provider {provider}"
    return None


def check_rooms(tree):
    """room: inside a layer an include goes where ROOMS allows it; only tests and bench/ include testing/"""
    for path in tree.cpp():
        for line, included in includes(tree, path):
            message = room_fault(path, included)
            if message:
                yield Violation(path, line, "room", message)


def room_fault(path, included):
    if is_test(path) or "/testing/" in path:
        return None
    if "/testing/" in included and not path.startswith("bench/"):
        return f"only tests include {included}"
    layer = house_of(path)
    rooms = ROOMS.get(layer)
    if rooms is None or house_of(included) != layer or included in WRITTEN_BY_CMAKE:
        return None
    room, target = room_of(path, rooms), room_of(included, rooms)
    if room is None or room == target or target in rooms[room]:
        return None
    return f"{layer}/{room} must not know {target or 'what stands beside the rooms'}: see ROOMS in " \
           "scripts/tidy/rules.py"


def house_of(path):
    """What has rooms: a layer, or bench/."""
    return "bench" if path.startswith("bench/") else layer_of(path)


def room_of(path, rooms):
    folder = path.removeprefix("refract/").split("/", 1)[1].rpartition("/")[0]
    while folder and folder not in rooms:
        folder = folder.rpartition("/")[0]
    return folder or None


def check_heavy_headers(tree):
    """heavy-header: few sources, and no header, include what costs the compiler a second each time"""
    sources = {header: 0 for header in HEAVY_HEADERS}
    for path in sorted(tree.cpp()):
        for match in re.finditer(r"(?m)^[ \t]*#[ \t]*include[ \t]+<([^>]+)>", tree.files[path]):
            header = match.group(1)
            if header not in HEAVY_HEADERS:
                continue
            allowed, instead = HEAVY_HEADERS[header]
            line = line_of(tree.files[path], match.start())
            if path.endswith(".h"):
                yield Violation(path, line, "heavy-header",
                                f"all who include this would pay for <{header}>: use {instead}")
                continue
            sources[header] += 1
            if sources[header] > allowed:
                yield Violation(path, line, "heavy-header",
                                f"<{header}> is in {allowed} sources already: use {instead}")


def check_public_headers(tree):
    """public-header: what a public header brings along is of PUBLIC_HEADERS, and needs no other library"""
    for start, layers in PUBLIC_HEADERS.items():
        if start in tree.files:
            yield from public_header_faults(tree, start, layers)


def public_header_faults(tree, start, layers):
    todo, seen = [start], set()
    while todo:
        path = todo.pop()
        if path in seen or path not in tree.files:
            continue
        seen.add(path)
        if layer_of(path) not in layers:
            yield Violation(path, 1, "public-header", f"{start} reaches this: hide it behind a pointer")
        for match in re.finditer(r"(?m)^#include <([^>]*/[^>]*)>", tree.files[path]):
            if not match.group(1).startswith("sys/"):
                yield Violation(path, line_of(tree.files[path], match.start()), "public-header",
                                f"users would need <{match.group(1)}>")
        todo += [name for _, name in includes(tree, path)]
