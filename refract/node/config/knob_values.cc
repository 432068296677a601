// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/knob_values.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "refract/base/default_socket.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/node/config/cluster_nodes.h"
#include "refract/node/config/redis_address.h"
#include "refract/node/doors/door_addresses.h"

namespace refract::node::knob_values {
namespace {

// The command line's have been made absolute before.
std::unexpected<Report> no_path(const std::string& text, std::string_view wanted) {
  return report(Code::kInvalidArgument, fmt::format("expected {}, found '{}'", wanted, text),
                "a path may be relative on the command line and in the environment, not in a file");
}

struct DurabilityName {
  std::string_view name;
  Durability durability;
};
constexpr std::array<DurabilityName, 3> kDurabilities = {
    {{"none", Durability::kNone}, {"everysec", Durability::kEverySecond}, {"always", Durability::kAlways}}};

struct EvictionName {
  std::string_view name;
  kv::EvictionPolicy policy;
};
constexpr std::array<EvictionName, 3> kEvictions = {{{"none", kv::EvictionPolicy::kNone},
                                                     {"lru", kv::EvictionPolicy::kLeastRecentlyUsed},
                                                     {"lfu", kv::EvictionPolicy::kLeastOftenUsed}}};

}  // namespace

Reported<> store_socket_path(NodeConfig& config, const KnobValue& value) {
  if (!value.text.starts_with('/') || value.text.find('\0') != std::string::npos) {
    return no_path(value.text, "an absolute path");
  }
  if (value.text.size() > kSocketPathBytesMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected a path of at most {} bytes (the system allows no more "
                              "for a socket), found one of {}",
                              kSocketPathBytesMax, value.text.size()));
  }
  config.socket_path = value.text;
  return {};
}

Reported<> store_rdma_device(NodeConfig& config, const KnobValue& value) {
  config.rdma_device = value.text == kNone ? std::string() : value.text;
  if (value.text.empty() || value.text.find_first_of(std::string_view("/ \0", 3)) != std::string::npos) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected the name of a device, found '{}'", value.text));
  }
  return {};
}

Reported<> store_rdma_connect_by(NodeConfig& config, const KnobValue& value) {
  const auto by = fabric::verbs::connect_by(value.text);
  if (!by) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected auto, exchange or cm, found '{}'", value.text));
  }
  config.rdma_connect_by = *by;
  return {};
}

Reported<> store_listen_address(NodeConfig& config, const KnobValue& value) {
  config.listen_address.clear();
  if (value.text == kNone) return {};
  if (auto sound = fabric::tcp::is_loopback(value.text); !sound) return report(sound.error());
  config.listen_address = value.text;
  return {};
}

Reported<> store_doors(NodeConfig& config, const KnobValue& value) {
  config.doors_listen.clear();
  if (value.text == kNone) return {};
  if (auto sound = parse_door_addresses(value.text); !sound) return report(sound.error());
  config.doors_listen = value.text;
  return {};
}

Reported<> store_path_or_none(std::string& member, const KnobValue& value) {
  member.clear();
  if (value.text == kNone) return {};
  if (!value.text.starts_with('/') || value.text.find('\0') != std::string::npos) {
    return no_path(value.text, "an absolute path or none");
  }
  member = value.text;
  return {};
}

Reported<> store_backing(NodeConfig& config, const KnobValue& value) {
  Reported<Backing> backing = parse_backing(value.text);
  if (!backing) return report(backing.error());
  config.memory_backing = std::move(*backing);
  return {};
}

Reported<> store_durability(NodeConfig& config, const KnobValue& value) {
  for (const DurabilityName& each : kDurabilities) {
    if (each.name != value.text) continue;
    config.durability = each.durability;
    return {};
  }
  return report(Code::kInvalidArgument,
                fmt::format("expected none, everysec or always, found '{}'", value.text));
}

std::string show_durability(const NodeConfig& config) {
  return std::string(kDurabilities[static_cast<size_t>(config.durability)].name);
}

Reported<> store_eviction(NodeConfig& config, const KnobValue& value) {
  for (const EvictionName& each : kEvictions) {
    if (each.name != value.text) continue;
    config.memory_eviction = each.policy;
    return {};
  }
  return report(Code::kInvalidArgument, fmt::format("expected none, lru or lfu, found '{}'", value.text));
}

std::string show_eviction(const NodeConfig& config) {
  return std::string(kEvictions[static_cast<size_t>(config.memory_eviction)].name);
}

Reported<> store_data_folder(NodeConfig& config, const KnobValue& value) {
  if (!value.text.starts_with('/') || value.text.find('\0') != std::string::npos) {
    return no_path(value.text, "an absolute path");
  }
  config.data_folder = value.text;
  return {};
}

Reported<> store_log_level(NodeConfig& config, const KnobValue& value) {
  const Result<LogLevel> level = log_level_from_text(value.text);
  if (!level) {
    return report(Code::kInvalidArgument,
                  fmt::format("expected error, warn, info or debug, found '{}'", value.text));
  }
  config.log_level = *level;
  return {};
}

Reported<> store_copies(NodeConfig& config, const KnobValue& value) {
  if (value.number == 0 || value.number == 1) {
    config.kv_copies = static_cast<uint32_t>(value.number);
    return {};
  }
  if (value.number == 3 || value.number == 5) {
    return report(
        Code::kInvalidArgument,
        fmt::format("expected 0 or 1, found '{}': keys with several copies are not there yet", value.number),
        "take 1, by which keys are routed in the same way");
  }
  return report(Code::kInvalidArgument, fmt::format("expected 0 or 1, found '{}'", value.number),
                "0 routes keys by their hash, 1 by their slot");
}

Reported<> store_cluster_nodes(NodeConfig& config, const KnobValue& value) {
  config.cluster_nodes = value.text == kNone ? std::string() : value.text;
  return value.text == kNone ? Reported<>{} : check_cluster_nodes(value.text);
}

Reported<> store_directory(NodeConfig& config, const KnobValue& value) {
  config.objects_directory.clear();
  if (value.text == kNone) return {};
  if (auto sound = parse_redis_address(value.text); !sound) return report(sound.error());
  config.objects_directory = value.text;
  return {};
}

Reported<> store_cluster_self(NodeConfig& config, const KnobValue& value) {
  // Whatever it is, it must stand in the list, where names are checked.
  config.cluster_self = value.text;
  return {};
}

}  // namespace refract::node::knob_values
