// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/inspect/decoder.h"
#include "apps/records/shown_text.h"

namespace refract::inspect {
namespace {

constexpr std::array kDecoders = {
    Decoder{"table", "Refract's own table, in a space of chunks", is_table, decode_table},
    Decoder{"prism-kv", "a store of the design PRISM-KV", is_prism_kv, decode_prism_kv},
    Decoder{"pilaf", "a store of the design Pilaf", is_pilaf, decode_pilaf},
};
constexpr uint64_t kRawBytes = 256;

}  // namespace

std::span<const Decoder> decoders() noexcept {
  return kDecoders;
}

const Decoder* decoder_named(std::string_view name) noexcept {
  const auto* row = std::ranges::find(kDecoders, name, &Decoder::name);
  return row == kDecoders.end() ? nullptr : row;
}

const Decoder* decoder_for(std::span<const std::byte> region) noexcept {
  const auto* row =
      std::ranges::find_if(kDecoders, [region](const Decoder& one) { return one.recognises(region); });
  return row == kDecoders.end() ? nullptr : row;
}

Part raw_bytes(std::span<const std::byte> region, uint64_t at) {
  Part part{.kind = "bytes"};
  if (at >= region.size()) {
    part.heading = fmt::format("nothing lies at {:#x}: the region ends at {:#x}", at, region.size());
    part.is_nothing = true;
    return part;
  }
  const auto shown = region.subspan(at, std::min<uint64_t>(kRawBytes, region.size() - at));
  part.heading = fmt::format("{} bytes from {:#x} on", shown.size(), at);
  std::vector<std::byte> copy(shown.size());
  copy_possibly_torn(copy.data(), shown.data(), copy.size());
  part.hidden("offset", at).hidden("hex", records::hex_text(copy));
  part.picture = records::hex_lines(copy, at);
  return part;
}

}  // namespace refract::inspect
