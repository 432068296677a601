# SPDX-License-Identifier: Apache-2.0
"""What the doors reply, as values of Python's."""


def taken(reply, at=0):
    """A reply as a value of Python's, and where the next one begins. A set has the order of its elements."""
    end = reply.index(b"\r\n", at)
    kind, line, at = reply[at : at + 1], reply[at + 1 : end], end + 2
    if kind in b"$=":
        count = int(line)
        return (None, at) if count < 0 else (reply[at : at + count].decode(), at + count + 2)
    if kind == b":":
        return int(line), at
    if kind == b"_":
        return None, at
    if kind not in b"*%~>":
        return line.decode(), at
    values = []
    for _ in range((2 if kind == b"%" else 1) * max(int(line), 0)):
        value, at = taken(reply, at)
        values.append(value)
    if kind == b"%":
        return dict(zip(values[::2], values[1::2])), at
    return values, at


def value_of(reply):
    return taken(reply)[0]


def fields_of(line):
    """Those of a line of CLIENT LIST."""
    return dict(field.split("=", 1) for field in line.split(" "))


def clients_of(connection, *words):
    text = value_of(connection.ask("CLIENT", "LIST", *words))
    return [fields_of(line) for line in text.removeprefix("txt:").splitlines()]


def info_of(connection, *sections):
    text = value_of(connection.ask("INFO", *sections)).removeprefix("txt:")
    lines = [line for line in text.split("\r\n") if line and not line.startswith("#")]
    return dict(line.split(":", 1) for line in lines)


def elements(reply):
    """Of an array of bulk strings."""
    found, at = [], reply.find(b"\r\n") + 2
    for _ in range(int(reply[1 : at - 2])):
        end = reply.find(b"\r\n", at)
        size = int(reply[at + 1 : end])
        found.append(reply[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return found
