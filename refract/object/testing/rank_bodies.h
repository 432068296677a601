// SPDX-License-Identifier: Apache-2.0
// Bodies of the call that ranks nodes, and of its answer, as tests send and read them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/object/testing/test_objects.h"

namespace refract::object::test {

[[nodiscard]] inline std::string rank_body(const std::vector<std::string>& ids, uint64_t timeout_ns) {
  std::string body =
      body_of(wire::RankRequest{.timeout_ns = timeout_ns, .count = short_of(ids.size()), .reserved = {}});
  for (const std::string& id : ids) body.append(1, static_cast<char>(id.size())).append(id);
  return body;
}

struct Ranked {
  struct Node {
    std::string name;
    wire::RankedNode node;
  };
  Code code = Code::kUnavailable;
  std::vector<Code> codes;  // Of the ids.
  std::vector<Node> nodes;

  [[nodiscard]] Code code_of(size_t index) const { return code_from_wire(nodes.at(index).node.code); }
  [[nodiscard]] const std::string& name(size_t index) const { return nodes.at(index).name; }
  [[nodiscard]] const wire::RankedNode& of(std::string_view name) const {
    for (const Node& node : nodes) {
      if (node.name == name) return node.node;
    }
    REFRACT_CHECK(false);
  }
  [[nodiscard]] std::string order() const {
    std::string names;
    for (const Node& node : nodes) names += node.name;
    return names;
  }
};

[[nodiscard]] inline Ranked ranked_of(const Answer& answer) {
  Ranked ranked;
  ranked.code = answer.code;
  if (answer.code != Code::kOk) return ranked;
  const auto reply = answer.as<wire::RankReply>();
  std::string_view rest = answer.bytes;
  rest.remove_prefix(sizeof(reply));
  const auto take = [&rest]<typename T>(T value) {
    REFRACT_CHECK(rest.size() >= sizeof(value));
    std::memcpy(&value, rest.data(), sizeof(value));
    rest.remove_prefix(sizeof(value));
    return value;
  };
  for (size_t i = 0; i < reply.ids; ++i) ranked.codes.push_back(code_from_wire(take(uint16_t{})));
  for (size_t i = 0; i < reply.told; ++i) {
    const auto node = take(wire::RankedNode{});
    ranked.nodes.push_back({.name = std::string(rest.substr(0, node.name_bytes)), .node = node});
    rest.remove_prefix(node.name_bytes);
  }
  REFRACT_CHECK(rest.empty());
  return ranked;
}

}  // namespace refract::object::test
