// SPDX-License-Identifier: Apache-2.0
// How a knob's value comes into the configuration, and how it is shown: what the rows of knobs.cc name. Where
// a number's range is not all there is to check, the value is checked here.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "refract/base/report.h"
#include "refract/node/config/config.h"
#include "refract/node/config/knobs.h"

namespace refract::node::knob_values {

// The word for what is not there, since an empty variable means that nothing was said.
inline constexpr std::string_view kNone = "none";

// Each stores a value that is in its knob's range; the sentence of a refusal says what was expected.
[[nodiscard]] Reported<> store_socket_path(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_rdma_device(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_rdma_connect_by(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_listen_address(NodeConfig& config, const KnobValue& value);
Reported<> store_doors(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_backing(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_durability(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_eviction(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_data_folder(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_log_level(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_copies(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_cluster_nodes(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_directory(NodeConfig& config, const KnobValue& value);
[[nodiscard]] Reported<> store_cluster_self(NodeConfig& config, const KnobValue& value);
// Into a member: the path of a file, or none.
[[nodiscard]] Reported<> store_path_or_none(std::string& member, const KnobValue& value);

[[nodiscard]] std::string show_durability(const NodeConfig& config);
[[nodiscard]] std::string show_eviction(const NodeConfig& config);

template <auto kMember>
Reported<> store_secret_file(NodeConfig& config, const KnobValue& value) {
  return store_path_or_none(config.*kMember, value);
}
template <auto kMember>
std::string show_or_none(const NodeConfig& config) {
  return (config.*kMember).empty() ? std::string(kNone) : config.*kMember;
}

// Stores a number that parse_value has found in range.
template <auto kMember>
Reported<> store_number(NodeConfig& config, const KnobValue& value) {
  using Number = std::remove_reference_t<decltype(config.*kMember)>;
  config.*kMember = static_cast<Number>(value.number);
  return {};
}
template <auto kMember>
std::string show_bytes(const NodeConfig& config) {
  return exact_bytes(config.*kMember);
}
template <auto kMember>
std::string show_duration(const NodeConfig& config) {
  return exact_duration(config.*kMember);
}
template <auto kMember>
std::string show_number(const NodeConfig& config) {
  return fmt::format("{}", config.*kMember);
}

}  // namespace refract::node::knob_values
