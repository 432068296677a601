// SPDX-License-Identifier: Apache-2.0
// What help() says of each call: of the client that blocks and of that of asyncio.
#pragma once

namespace refract::python::texts {

inline constexpr const char* kGet =
    "get($self, key, default=..., *, timeout=None)\n--\n\n"
    "The value, as bytes. Without a default: raises NotFound (a KeyError) where there is none.\n\n"
    "On the node's host it is read from the node's memory, in less than a microsecond where it is short,\n"
    "also while the server is stopped.";

inline constexpr const char* kGetVersioned =
    "get_versioned($self, key, default=..., *, timeout=None)\n--\n\n"
    "As get(), with the version that if_version takes: Versioned(value, version).";

inline constexpr const char* kPut =
    "put($self, key, value, *, ttl=None, if_absent=False, if_version=None, timeout=None)\n--\n\n"
    "Puts any C-contiguous buffer: bytes, bytearray, memoryview, a numpy array; or a Reservation. Returns "
    "the\n"
    "new version.\n\n"
    "ttl: after so many seconds, by the node's clock, the entry is gone.\n"
    "if_absent: raises Exists where the key is there. if_version: raises VersionMismatch where it has "
    "another\n"
    "version, NotFound where it is absent.\n"
    "Raises NoSpace, TooLarge (512 MiB), Indeterminate: it may or may not have been done.";

inline constexpr const char* kErase =
    "erase($self, key, *, if_version=None, timeout=None)\n--\n\n"
    "Erases it. Returns the version that was erased. Raises NotFound, VersionMismatch, Indeterminate.";

inline constexpr const char* kExists = "exists($self, key, *, timeout=None)\n--\n\nWhether the key is there.";

inline constexpr const char* kCas =
    "cas($self, key, old, new, *, ttl=None, timeout=None)\n--\n\n"
    "Puts `new` where the value is `old`. Returns the new version. Raises VersionMismatch where it is\n"
    "another, NotFound where there is none, Indeterminate.";

inline constexpr const char* kTtl =
    "ttl($self, key, *, timeout=None)\n--\n\n"
    "How many seconds the entry has left, by the node's clock; None: it stays. Raises NotFound.";

inline constexpr const char* kAdd =
    "add($self, key, addend=1, *, timeout=None)\n--\n\n"
    "Adds to the decimal number of 64 bits that the value is; an absent one is 0. Returns the sum.\n"
    "The node does it, so that many may add at once. Raises InvalidArgument where the sum has more bits or\n"
    "the value is no number, as b'007', b'-0', b'+1' and b' 1' are none; Indeterminate.";

inline constexpr const char* kScan =
    "scan($self, prefix='', *, timeout=None)\n--\n\n"
    "All keys, or those that begin so, as bytes, in no particular order: an iterator. All keys are looked "
    "at\n"
    "in both cases. A key that is there throughout comes at least once; one may come twice. timeout: of "
    "each\n"
    "page of some hundred keys.";

inline constexpr const char* kGetMany =
    "get_many($self, keys, *, timeout=None)\n--\n\n"
    "Many gets in one call. Returns an outcome for each, in their order: the value, None where there is\n"
    "none, or another exception (not raised).";

inline constexpr const char* kPutMany =
    "put_many($self, items, *, ttl=None, if_absent=False, timeout=None)\n--\n\n"
    "Many puts in one call, of a dict or of (key, value), each for itself; transaction() puts all or none.\n"
    "Returns an outcome for each, in their order: its version, or an exception (not raised).";

inline constexpr const char* kExistsMany =
    "exists_many($self, keys, *, timeout=None)\n--\n\n"
    "Returns an outcome for each key, in their order: whether it is there, or an exception (not raised).";

inline constexpr const char* kView =
    "view($self, key, default=..., *, timeout=None)\n--\n\n"
    "The value without a copy, as a View: read-only bytes in the node's memory, which stay as they are "
    "until "
    "the\n"
    "View and each memoryview, array and slice of it are gone, also behind close(). Also: `with "
    "client.view(k) as v`\n(refract.aio: `async with`).\n\n"
    "A thread can hold 255 values so; what is beyond them, of up to 64 bytes, or on another host is a copy: "
    "is_copy.";

inline constexpr const char* kGetInto =
    "get_into($self, key, buffer, *, timeout=None)\n--\n\n"
    "Copies the value to the beginning of a writable C-contiguous buffer, and returns how many bytes it "
    "has.\n"
    "buffer: a bytearray, a memoryview, a numpy array, a tensor of torch's on the CPU, or (address, bytes), "
    "which\n"
    "is believed: a wrong one ends the process, or worse.\n"
    "Raises TooLarge, with value_bytes, where the value is longer; then the buffer is as it was. NotFound.";

inline constexpr const char* kGetManyInto =
    "get_many_into($self, keys, buffers, *, timeout=None)\n--\n\n"
    "Many get_into() in one call: each key's value into the buffer of the same place. Returns an outcome "
    "for\n"
    "each, in their order: how many bytes, None where there is none, or another exception (not raised).";

inline constexpr const char* kArray =
    "array($self, key, default=..., *, timeout=None)\n--\n\n"
    "The numpy array that put_array() or numpy.save() made the value of, read-only. From 4 KiB on it lies "
    "in "
    "the\n"
    "node's memory, as view() has it, on a cache line; else it is a copy (array.base.is_copy).\n"
    "Raises NotFound, Malformed: it is no such array. array.copy() may be changed.";

inline constexpr const char* kPutArray =
    "put_array($self, key, array, *, ttl=None, if_absent=False, if_version=None, timeout=None)\n--\n\n"
    "Puts a numpy array, or what numpy.asarray() makes of it, in numpy's own form (.npy). Returns the new "
    "version.\n"
    "Structured and Fortran-ordered arrays keep what they are. Options and errors as put(). Raises\n"
    "InvalidArgument of arrays of Python objects.";

inline constexpr const char* kBuild =
    "build($self, key, shape, dtype=None, *, order='C', ttl=None, if_absent=False, if_version=None, "
    "timeout=None)\n--\n\n"
    "with client.build('frame', (1080, 1920), 'u1') as a: a[...] = ...    (refract.aio: `async with`)\n\n"
    "An array to fill, with anything in it at first, which is put at the end of the block as put_array() "
    "puts "
    "it,\n"
    "without a copy on this side. An exception inside puts nothing. Behind the block the array belongs to "
    "no "
    "value.";

inline constexpr const char* kReserve =
    "reserve($self, size)\n--\n\n"
    "A Reservation: memory in which a value is built, and from which put() takes it without a copy on this "
    "side.\n"
    "Worth it from some 30 KB on. Raises TooLarge, NoSpace. Also: `with client.reserve(n) as r`\n"
    "(refract.aio: `async with`, or `await`).";

inline constexpr const char* kPrefixExists =
    "prefix_exists($self, keys, *, timeout=None)\n--\n\n"
    "How many of the keys are there, counted from the first on to the first that is not.";

inline constexpr const char* kTransaction =
    "transaction($self, body, *, timeout=None, read_only=False)\n--\n\n"
    "Runs body(t), then makes what it has written by the Transaction t at one moment at which all that it\n"
    "has read stands. Returns what the body returned. Where other writers came between, the body runs "
    "again:\n"
    "it should do nothing but what belongs to the transaction. An exception of the body leaves nothing, "
    "and\n"
    "comes out unchanged.\n\n"
    "timeout: seconds of all attempts together, 5 by default. read_only: the body may not write; what it "
    "has\n"
    "read stood together.\n"
    "Raises Conflict (other writers were quicker all the time; nothing was changed), Indeterminate,\n"
    "Unsupported (keys of several shards, and the node keeps its data on disk).";

inline constexpr const char* kPing =
    "ping($self, *, timeout=None)\n--\n\n"
    "Asks the server for a sign of life: Pong(seconds, node_time), which are the round trip and the node's\n"
    "time in seconds since 1970.";

inline constexpr const char* kRoute =
    "route($self, *, timeout=None)\n--\n\n"
    "By what way this thread reaches the node, and why: Route. print(client.route().text) is for people.";

// Of a transaction.
inline constexpr const char* kInsideGet =
    "get($self, key, default=...)\n--\n\n"
    "The value, as bytes: what this transaction has put, else what is there. Without a default: raises\n"
    "NotFound where there is none.";

inline constexpr const char* kInsideGetMany =
    "get_many($self, keys)\n--\n\nThe values, in the order of the keys; None where there is none.";

inline constexpr const char* kInsideExists = "exists($self, key)\n--\n\nWhether the key is there.";

inline constexpr const char* kInsidePut =
    "put($self, key, value, *, ttl=None)\n--\n\nPuts it when the transaction is committed.";

inline constexpr const char* kInsideErase =
    "erase($self, key)\n--\n\nErases it when the transaction is committed; nothing where it is absent.";

inline constexpr const char* kInsideAdd =
    "add($self, key, addend=1)\n--\n\n"
    "Adds to the decimal number that the value is, when the transaction is committed; an absent one is "
    "0.\n"
    "Nothing is read, so that many may add to one key at once.";

inline constexpr const char* kInsideValidate =
    "validate($self)\n--\n\n"
    "Raises Conflict unless all that was read stood together at one moment. Before that moment what was\n"
    "read from several keys may not fit together.";

}  // namespace refract::python::texts
