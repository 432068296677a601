// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doors/birth.h"

#include "refract/documents/json.h"
#include "refract/documents/value.h"

namespace refract::node {
namespace {

std::string text_in(const documents::Value& value, std::string_view name) {
  const documents::Value* const found = value.find(name);
  return found != nullptr && found->is_text() ? found->as_text() : std::string();
}
bool truth_in(const documents::Value& value, std::string_view name) {
  const documents::Value* const found = value.find(name);
  return found != nullptr && found->is_bool() && found->as_bool();
}
uint64_t number_in(const documents::Value& value, std::string_view name) {
  const documents::Value* const found = value.find(name);
  return found != nullptr && found->is_unsigned() ? found->as_unsigned() : 0;
}

}  // namespace

std::string to_text(const DoorsBirth& birth) {
  return documents::to_json_line({{"node", birth.node},
                                  {"threads", birth.threads},
                                  {"password", birth.password},
                                  {"tcp_port", birth.tcp_port},
                                  {"memory_limit", birth.memory_limit_bytes},
                                  {"eviction", birth.eviction},
                                  {"durability", birth.durability},
                                  {"folder", birth.folder},
                                  {"is_loading", birth.is_loading}});
}

Reported<DoorsBirth> doors_birth_from(std::string_view text) {
  const auto value = documents::parse_json(text);
  if (!value || !value->is_object() || text_in(*value, "node").empty() || number_in(*value, "threads") == 0) {
    return report(Code::kMalformed, "the keeper of another version has started this program",
                  "install refractd and refract-doors together");
  }
  return DoorsBirth{.node = text_in(*value, "node"),
                    .threads = static_cast<uint32_t>(number_in(*value, "threads")),
                    .password = text_in(*value, "password"),
                    .tcp_port = static_cast<uint16_t>(number_in(*value, "tcp_port")),
                    .memory_limit_bytes = number_in(*value, "memory_limit"),
                    .eviction = text_in(*value, "eviction"),
                    .durability = text_in(*value, "durability"),
                    .folder = text_in(*value, "folder"),
                    .is_loading = truth_in(*value, "is_loading")};
}

}  // namespace refract::node
