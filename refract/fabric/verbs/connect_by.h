// SPDX-License-Identifier: Apache-2.0
// How a domain's queue pairs come to be connected, as an operator says it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace refract::fabric::verbs {

enum class ConnectBy : uint8_t {
  kAuto,      // By exchange, and by librdmacm where that comes to nothing.
  kExchange,  // Each end tells the other what it needs to set up its own.
  kRdmaCm,    // By librdmacm alone.
};

inline constexpr std::array<std::pair<std::string_view, ConnectBy>, 3> kConnectByWords = {
    {{"auto", ConnectBy::kAuto}, {"exchange", ConnectBy::kExchange}, {"cm", ConnectBy::kRdmaCm}}};

[[nodiscard]] constexpr std::string_view text(ConnectBy by) noexcept {
  return kConnectByWords[static_cast<size_t>(by)].first;
}
[[nodiscard]] constexpr std::optional<ConnectBy> connect_by(std::string_view text) noexcept {
  for (const auto& [word, by] : kConnectByWords) {
    if (word == text) return by;
  }
  return {};
}

}  // namespace refract::fabric::verbs
