// SPDX-License-Identifier: Apache-2.0
// Bodies of the call that brings an object to many nodes, and of its answer, as tests send and read them.
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

[[nodiscard]] inline std::string broadcast_body(std::string_view id, const std::vector<std::string>& nodes,
                                                uint64_t timeout_ns) {
  std::string body = body_of(wire::BroadcastRequest{.timeout_ns = timeout_ns,
                                                    .id_bytes = short_of(id.size()),
                                                    .count = static_cast<uint8_t>(nodes.size()),
                                                    .reserved = {}},
                             id);
  for (const std::string& node : nodes) body.append(1, static_cast<char>(node.size())).append(node);
  return body;
}

struct Broadcasted {
  Code code = Code::kUnavailable;
  wire::BroadcastReply reply{};
  std::vector<std::pair<std::string, Code>> nodes;
};

[[nodiscard]] inline Broadcasted broadcasted_of(const Answer& answer) {
  Broadcasted done;
  done.code = answer.code;
  if (answer.bytes.empty()) return done;
  done.reply = answer.as<wire::BroadcastReply>();
  std::string_view rest = answer.bytes;
  rest.remove_prefix(sizeof(done.reply));
  for (size_t i = 0; i < done.reply.told; ++i) {
    wire::BroadcastNode node{};
    REFRACT_CHECK(rest.size() >= sizeof(node));
    std::memcpy(&node, rest.data(), sizeof(node));
    rest.remove_prefix(sizeof(node));
    REFRACT_CHECK(rest.size() >= node.name_bytes);
    done.nodes.emplace_back(rest.substr(0, node.name_bytes), code_from_wire(node.code));
    rest.remove_prefix(node.name_bytes);
  }
  REFRACT_CHECK(rest.empty());
  return done;
}

}  // namespace refract::object::test
