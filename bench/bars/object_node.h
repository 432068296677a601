// SPDX-License-Identifier: Apache-2.0
// A private node that has objects, and what bars do with one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/measure/delayed_path.h"
#include "bench/sides/private_node.h"

#include "refract/client/client.h"
#include "refract/client/objects.h"

namespace refract::bench {

struct ObjectNode {
  PrivateNode node;
  Client client;
  Objects objects;
};

// With room for `entries` and for so many bytes of objects.
[[nodiscard]] Reported<ObjectNode> start_object_node(const BarRun& run, uint64_t entries,
                                                     uint64_t objects_limit_bytes);

// Some nodes of one list over TCP on loopback, named a, b, and so on; or with a path, which outlives them:
// all but the first are at its far end. No process of them is bound.
struct ListedNodes {
  test::TemporaryFolder folder;  // Has what the nodes know.
  std::vector<ObjectNode> nodes;
};
[[nodiscard]] Reported<ListedNodes> start_listed_nodes(const BarRun& run, size_t count,
                                                       uint64_t objects_limit_bytes,
                                                       const DelayedPath* path = nullptr);
// Puts an object; until the id's home has heard from all nodes it waits.
[[nodiscard]] Reported<> put_listed(Objects& objects, uint64_t number, std::span<const std::byte> body);
// Seconds until all nodes of the list have a copy of it.
[[nodiscard]] Reported<double> seconds_of_broadcast(Objects& objects, uint64_t number);
// Of a pull by the node itself.
[[nodiscard]] Reported<double> seconds_of_pull(Objects& objects, uint64_t number);
// Until this node has heard from all others and they from each other: makes an object with this number and
// brings it to all.
[[nodiscard]] Reported<> await_others(Objects& objects, uint64_t number);

[[nodiscard]] std::string object_id(uint64_t number);
// So many bytes that follow from the number.
void fill_body(std::span<std::byte> body, uint64_t number);

// Whether that object has exactly these bytes: looks at all of them.
[[nodiscard]] Reported<> check_object(Objects& objects, uint64_t number, Bytes body);
// Nothing of what a node has got from others is left there, once it may go.
[[nodiscard]] Reported<> forget_copies(Objects& objects);
// What nodes of one list know, into a file of this user.
[[nodiscard]] Reported<> write_node_secret(const std::string& path, std::string_view secret);
// The numbers below `count`: nothing of them is left.
[[nodiscard]] Reported<> remove_objects(Objects& objects, uint64_t count);

}  // namespace refract::bench
