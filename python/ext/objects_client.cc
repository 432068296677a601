// SPDX-License-Identifier: Apache-2.0
// The class and its texts; what the calls do is in objects_calls.cc.
#include "python/ext/objects_client.h"

#include "python/ext/objects_calls.h"

namespace refract::python {

namespace py = pybind11;

namespace {

void add_making(py::class_<ObjectsClient>& type) {
  type.def("create", &ObjectsClient::create, py::arg("id"), py::arg("size"), py::kw_only(),
           py::arg("metadata") = py::bytes(), py::arg("room_timeout") = 5.0,
           "create($self, id, size, *, metadata=b'', room_timeout=5.0)\n--\n\n"
           "Takes room for an object of `size` bytes, and returns a NewObject to fill and to seal.\n\n"
           "room_timeout: how many seconds to wait for room that others hold; None: without an end.\n"
           "Raises Exists, TooLarge, NoSpace (it names what is held, kept and being made), Away.")
      .def("put", &ObjectsClient::put, py::arg("id"), py::arg("data"), py::kw_only(),
           py::arg("metadata") = py::bytes(), py::arg("room_timeout") = 5.0, py::arg("copies") = 0,
           py::arg("copies_timeout") = 5.0,
           "put($self, id, data, *, metadata=b'', room_timeout=5.0, copies=0, copies_timeout=5.0)\n--\n\n"
           "Makes an object of any C-contiguous buffer: bytes, bytearray, memoryview, a numpy array.\n"
           "Returns its birth. Arguments and errors as create().\n\n"
           "copies: so many are kept on different nodes, as set_copies() has it, and waited for so many "
           "seconds;\n"
           "copies_made() says how many there are then. Raises Unsupported, and makes nothing, where the "
           "node\n"
           "keeps no copies.")
      .def("put_value", &ObjectsClient::put_value, py::arg("id"), py::arg("value"), py::kw_only(),
           py::arg("metadata") = py::bytes(), py::arg("room_timeout") = 5.0,
           "put_value($self, id, value, *, metadata=b'', room_timeout=5.0)\n--\n\n"
           "Makes an object of any Python object that pickle takes. The data of arrays in it are copied "
           "once,\n"
           "into the object. get_value() returns it. Returns its birth. Arguments and errors as create().")
      .def("put_many", &ObjectsClient::put_many, py::arg("items"),
           "put_many($self, items)\n--\n\n"
           "Many puts in one call: of (id, data) or (id, data, metadata). None waits for room.\n"
           "Returns an outcome for each, in their order: its birth, or an exception (not raised).")
      .def("new_id", &ObjectsClient::new_id,
           "new_id($self)\n--\n\nAn id that no other program will draw: 20 bytes.");
}

void add_reading(py::class_<ObjectsClient>& type) {
  type.def("get", &ObjectsClient::get, py::arg("id"), py::arg("timeout") = 0.0,
           "get($self, id, timeout=0.0)\n--\n\n"
           "The Object of this id: a read-only buffer, which holds it.\n\n"
           "timeout: how many seconds to wait for one that is not there; 0: not at all; None: without an "
           "end.\n"
           "Raises NotFound (a KeyError), Away, NoSpace (no room for a copy of another node's), Overloaded "
           "(this\n"
           "thread holds as many as it can).")
      .def("get_many", &ObjectsClient::get_many, py::arg("ids"), py::arg("timeout") = 0.0,
           "get_many($self, ids, timeout=0.0)\n--\n\n"
           "Many gets, all waited for together. Returns an outcome for each, in their order: the Object, "
           "None\n"
           "where there is none, or another exception (not raised).")
      .def("get_value", &ObjectsClient::get_value, py::arg("id"), py::arg("timeout") = 0.0,
           "get_value($self, id, timeout=0.0)\n--\n\n"
           "What put_value() was given. Its arrays lie in the store's memory, read-only, and hold the "
           "object.\n"
           "Raises as get(), and Malformed where the object is no such value.\n\n"
           "This is pickle: what is read can have any code run. Read values of programs that you trust.")
      .def("contains", &ObjectsClient::contains, py::arg("id"),
           "contains($self, id)\n--\n\nWhether it is there, sealed. Also: `id in client`.")
      .def("__contains__", &ObjectsClient::contains, py::arg("id"))
      .def("where", &ObjectsClient::where, py::arg("id"),
           "where($self, id)\n--\n\n"
           "Which nodes have it: Places. Raises NotFound, Away, Unsupported (the node shares its objects "
           "with\n"
           "no other).")
      .def("set_copies", &ObjectsClient::set_copies, py::arg("id"), py::arg("copies"), py::kw_only(),
           py::arg("timeout") = 5.0,
           "set_copies($self, id, copies, *, timeout=5.0)\n--\n\n"
           "So many copies, at most 16, are kept on different nodes, and none of them is evicted; 0: copies "
           "go\n"
           "when room is needed. Waits until there are so many, and returns Copies. Raises NotFound, Away,\n"
           "Unsupported (the node shares its objects with no other).")
      .def("prefetch", &ObjectsClient::prefetch, py::arg("ids"), py::arg("timeout") = 0.0,
           "prefetch($self, ids, timeout=0.0)\n--\n\n"
           "Brings copies of other nodes' objects to this one, so that a get of them is quick; waits as "
           "get()\n"
           "does. Returns an outcome for each: None, or an exception (not raised).")
      .def("broadcast", &ObjectsClient::broadcast, py::arg("id"), py::arg("nodes") = py::none(),
           py::arg("timeout") = 60.0,
           "broadcast($self, id, nodes=None, timeout=60.0)\n--\n\n"
           "Brings copies to these nodes, all at once, or to all nodes: each passes on what has come to it, "
           "so\n"
           "many have it in about the time of one. Waits so many seconds; what is under way then continues.\n"
           "Returns Broadcast: `missed` is 0 where all have it. Raises NotFound, Away, InvalidArgument (more "
           "than\n"
           "255 names, or one that no node has), Unsupported (the node shares its objects with no other).")
      .def("rank", &ObjectsClient::rank, py::arg("ids"), py::arg("timeout") = 1.0,
           "rank($self, ids, timeout=1.0)\n--\n\n"
           "In how much time each node could have these objects, the quickest first: Rank. A program that "
           "reads\n"
           "them should run on the first. Nodes say what they lack, and estimate by the paths that their "
           "pulls have\n"
           "measured; nodes that do not say so within `timeout` seconds are the last. At most 256 ids. "
           "Raises\n"
           "Unsupported (the node shares its objects with no other), Away (the list of nodes changed).")
      .def("list", &ObjectsClient::list, py::kw_only(), py::arg("all") = false,
           "list($self, *, all=False)\n--\n\n"
           "What is there: a list of Listed, in no particular order. all: also what is being made, and how "
           "many\n"
           "hold each.")
      .def("digest", &ObjectsClient::digest, py::arg("id"),
           "digest($self, id)\n--\n\n16 bytes: XXH3, 128 bits, of bytes and metadata; reads them all.");
}

void add_ending(py::class_<ObjectsClient>& type) {
  type.def("delete", &ObjectsClient::remove, py::arg("id"), py::kw_only(), py::arg("birth") = 0,
           "delete($self, id, *, birth=0)\n--\n\n"
           "Frees the id now, and the memory with its last holder; on all nodes that share their objects.\n"
           "Returns how many hold it. birth: only the object of this birth; 0: any.\n"
           "Raises NotFound, VersionMismatch (the id is another's), Away, Indeterminate.")
      .def("copies_made", &ObjectsClient::copies_made,
           "copies_made($self)\n--\n\n"
           "How many copies there were when this thread's last put() with copies returned.")
      .def("missed", &ObjectsClient::missed,
           "missed($self)\n--\n\n"
           "Names of nodes that had not dropped it when this thread's last delete() returned. They do when "
           "they\n"
           "are back.")
      .def("evict", &ObjectsClient::evict, py::arg("size"),
           "evict($self, size)\n--\n\n"
           "Removes objects that are not held and not kept, the least recently used first, until `size` "
           "bytes\n"
           "were given back, or no more can go. Returns how many were.")
      .def("keep", &ObjectsClient::keep, py::arg("id"), py::arg("kept") = true,
           "keep($self, id, kept=True)\n--\n\nKept: never evicted. Raises NotFound.");
}

}  // namespace

void add_objects(py::module_& module) {
  py::class_<ObjectsClient> type(
      module, "ObjectsClient",
      "The objects of a node: made once, never changed, read without a copy. connect() makes one.\n\n"
      "Ids are str (as UTF-8) or bytes, 1 to 255 of them. Any thread may call. Each call ends by the "
      "client's\n"
      "timeout beyond the time that it was given to wait. Errors are subclasses of refract.Error.\n\n"
      "Ctrl-C ends a wait of the main thread. After a fork the child's handle raises Forked: connect() "
      "again.");
  add_making(type);
  add_reading(type);
  add_ending(type);
  type.def("subscribe", &ObjectsClient::subscribe,
           "subscribe($self)\n--\n\n"
           "All that is there, then each seal and each removal once, in their order: a Subscription.")
      .def("stat", &ObjectsClient::stat,
           "stat($self)\n--\n\nBytes and numbers of objects, of the whole node: Stat.")
      .def("close", &ObjectsClient::close,
           "close($self)\n--\n\n"
           "Ends the connections, and what is being made. Objects and their views stay good. A call that "
           "another\n"
           "thread is in ends as usual. Also: `with connect() as client: ...`.")
      .def_property_readonly("is_closed", &ObjectsClient::is_closed, "Whether close() was called.")
      .def_property_readonly("address", &ObjectsClient::address, "As connect() was given it.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](ObjectsClient& self, const py::args&) { self.close(); })
      .def("__repr__", &ObjectsClient::text);
  py::class_<Following>(module, "Subscription",
                        "What happens to objects, as subscribe() began it: an iterator of Notice.\n\n"
                        "One that falls too far behind is told `missed`, and then all that is there again.")
      .def("next", &Following::next, py::arg("timeout") = py::none(),
           "next($self, timeout=None)\n--\n\n"
           "The next Notice, waiting so many seconds for it (None: without an end), or None: none came.")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", [](Following& self) { return self.next(py::none()); });
  module.def(
      "connect_objects", &connect_objects, py::arg("address") = "", py::kw_only(),
      py::arg("secret_file") = "", py::arg("timeout") = 5.0,
      "connect_objects(address='', *, secret_file='', timeout=5.0)\n--\n\n"
      "Connects to a node, and returns a client of its objects.\n\n"
      "address: the path of a node's socket; 'refract://host:port'; empty: this user's default socket.\n"
      "secret_file: what a node on another host asks for; empty: what $REFRACT_SECRET_FILE names.\n"
      "timeout: how many seconds one call may take, beyond the time that it was given to wait.\n"
      "Raises Unavailable, Unsupported (the node has no objects), InvalidArgument.");
}

}  // namespace refract::python
