// SPDX-License-Identifier: Apache-2.0
#include "bench/fabric/fabric_ends.h"

#include <array>

namespace refract::bench {
namespace {

constexpr std::array kFabricRows = {
    FabricRow{"shm", "",
              [](const std::string& address) { return ServingEnd::over_shm(address, FabricLayout::kBytes); },
              node::shm_client},
    FabricRow{"tcp", "127.0.0.1:0",
              [](const std::string& address) { return ServingEnd::over_tcp(address, FabricLayout::kBytes); },
              node::tcp_client},
    FabricRow{
        "verbs", "127.0.0.1:0",
        [](const std::string& address) { return ServingEnd::over_verbs(address, FabricLayout::kBytes); },
        [] { return node::verbs_client(); }},
};

}  // namespace

std::span<const FabricRow> fabric_rows() noexcept {
  return kFabricRows;
}

Reported<const FabricRow*> fabric_row(std::string_view name) {
  std::string names;
  for (const FabricRow& row : kFabricRows) {
    if (row.name == name) return &row;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return report(Code::kUnsupported, "this program has no provider named " + std::string(name),
                "there are: " + names);
}

}  // namespace refract::bench
