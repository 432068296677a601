// SPDX-License-Identifier: Apache-2.0
// The calls that are about several nodes.
#include <string>
#include <utility>
#include <vector>

#include "python/ext/arguments.h"
#include "python/ext/called.h"
#include "python/ext/objects_calls.h"

namespace refract::python {

namespace py = pybind11;

uint32_t copies_of(py::handle copies) {
  const uint64_t wanted = bytes_of(copies, "copies");
  if (wanted > Objects::kCopiesMax) {
    raise_invalid("there are at most " + std::to_string(Objects::kCopiesMax) + " copies, not " +
                  std::to_string(wanted));
  }
  return static_cast<uint32_t>(wanted);
}

std::vector<std::string> ids_of(py::handle ids) {
  if (PyUnicode_Check(ids.ptr()) != 0 || PyObject_CheckBuffer(ids.ptr()) != 0) {
    raise_type("ids is a list of ids, not one id");
  }
  const py::object all = py::reinterpret_steal<py::object>(PySequence_List(ids.ptr()));
  if (!all) raise_pending();
  std::vector<std::string> texts;
  for (const py::handle id : py::reinterpret_borrow<py::list>(all)) texts.push_back(id_of(id));
  return texts;
}

std::vector<Bytes> lent(const std::vector<std::string>& ids, const std::vector<size_t>& wanted) {
  std::vector<Bytes> some;
  some.reserve(wanted.size());
  for (const size_t index : wanted) some.emplace_back(ids[index]);
  return some;
}

std::vector<size_t> counted(size_t count) {
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

py::object ObjectsClient::where(py::handle id) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  const ObjectPlaces places = value_or_raise(
      called<ObjectPlaces>(held, [&] { return held->objects.where(name); }), "where of " + shown(name));
  py::list nodes;
  for (const std::string& node : places.nodes) nodes.append(py::str(node));
  return record("Places", places.birth, places.body_bytes, places.metadata_bytes, nodes, places.copies_wanted,
                places.copies);
}

py::object ObjectsClient::set_copies(py::handle id, py::handle copies, py::handle timeout) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  const uint32_t wanted = copies_of(copies);
  const uint64_t timeout_ms = ms_of(timeout, "timeout");
  const ObjectCopies are = value_or_raise(
      called<ObjectCopies>(held, [&] { return held->objects.set_copies(name, wanted, timeout_ms); }),
      "set_copies of " + shown(name));
  return record("Copies", are.birth, are.wanted, are.copies);
}

py::list ObjectsClient::prefetch(py::handle ids, py::handle timeout) {
  const SharedLink held = link();
  const std::vector<std::string> names = ids_of(ids);
  std::vector<Code> codes(names.size(), Code::kNotFound);
  std::vector<size_t> wanted = counted(names.size());
  wait_in_slices(ms_of(timeout, "timeout"), kSlice_ms, [&](uint64_t ms) {
    return without_gil([&] {
      const std::vector<Code> now = held->objects.prefetch(lent(names, wanted), ms);
      std::vector<size_t> missing;
      for (size_t i = 0; i < wanted.size(); ++i) {
        codes[wanted[i]] = now[i];
        if (now[i] == Code::kNotFound) missing.push_back(wanted[i]);
      }
      wanted = std::move(missing);
      return wanted.empty();
    });
  });
  py::list outcomes;
  for (size_t i = 0; i < names.size(); ++i) {
    if (codes[i] == Code::kOk) {
      outcomes.append(py::none());
    } else {
      outcomes.append(error_of(explain(codes[i], "prefetch of " + shown(names[i]))));
    }
  }
  return outcomes;
}

namespace {

// None: all nodes.
std::vector<std::string> node_names_of(py::handle nodes) {
  std::vector<std::string> names;
  if (nodes.is_none()) return names;
  if (PyUnicode_Check(nodes.ptr()) != 0) raise_type("nodes is a list of names of nodes, not one name");
  const py::object all = py::reinterpret_steal<py::object>(PySequence_List(nodes.ptr()));
  if (!all) raise_pending();
  for (const py::handle name : py::reinterpret_borrow<py::list>(all)) {
    names.push_back(text_of(name, "a name of nodes"));
    if (names.back().empty() || names.back().size() > UINT8_MAX) {
      raise_invalid("a node's name has 1 to 255 bytes, and one of nodes has " +
                    std::to_string(names.back().size()));
    }
  }
  if (names.empty()) raise_invalid("nodes has no name in it", "None stands for all nodes");
  if (names.size() > Objects::kBroadcastNodesMax) {
    raise_invalid("broadcast takes at most " + std::to_string(Objects::kBroadcastNodesMax) +
                  " names of nodes, not " + std::to_string(names.size()));
  }
  return names;
}

}  // namespace

py::object ObjectsClient::broadcast(py::handle id, py::handle nodes, py::handle timeout) {
  const SharedLink held = link();
  const std::string name = id_of(id);
  const std::vector<std::string> wanted = node_names_of(nodes);
  const uint64_t timeout_ms = ms_of(timeout, "timeout");
  const ObjectBroadcast done = value_or_raise(
      called<ObjectBroadcast>(held, [&] { return held->objects.broadcast(name, wanted, timeout_ms); }),
      "broadcast of " + shown(name));
  py::list outcomes;
  for (const BroadcastNode& one : done.nodes) {
    py::object error = py::none();
    if (one.code != Code::kOk) {
      error = error_of(explain(one.code, "broadcast of " + shown(name) + " to node " + one.node));
    }
    outcomes.append(record("BroadcastNode", py::str(one.node), error));
  }
  return record("Broadcast", outcomes, done.missed, done.untold);
}

py::object ObjectsClient::rank(py::handle ids, py::handle timeout) {
  const SharedLink held = link();
  const std::vector<std::string> names = ids_of(ids);
  if (names.empty() || names.size() > Objects::kRankIdsMax) {
    raise_invalid("rank takes 1 to " + std::to_string(Objects::kRankIdsMax) + " ids, not " +
                  std::to_string(names.size()));
  }
  const uint64_t timeout_ms = ms_of(timeout, "timeout");
  const ObjectRank rank = value_or_raise(
      called<ObjectRank>(held,
                         [&] { return held->objects.rank(lent(names, counted(names.size())), timeout_ms); }),
      "rank");
  const auto error = [](Code code, const std::string& what) -> py::object {
    if (code == Code::kOk) return py::none();
    return error_of(explain(code, what));
  };
  py::list nodes;
  for (const RankedNode& one : rank.nodes) {
    nodes.append(record("RankedNode", py::str(one.node), error(one.code, "rank of node " + one.node),
                        one.missing_objects, one.missing_bytes, static_cast<double>(one.time_ns) / 1e9,
                        one.is_guessed, one.unreachable_objects));
  }
  py::list errors;
  for (size_t i = 0; i < names.size(); ++i) errors.append(error(rank.ids[i], "rank of " + shown(names[i])));
  return record("Rank", nodes, errors);
}

uint32_t ObjectsClient::copies_made() {
  return link()->objects.copies_made();
}

py::list ObjectsClient::missed() {
  py::list nodes;
  for (const std::string& node : link()->objects.missed()) nodes.append(py::str(node));
  return nodes;
}

}  // namespace refract::python
