// SPDX-License-Identifier: Apache-2.0
// A plain chain in the dense form, for tests that make their chains byte by byte.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "refract/prism/decode.h"
#include "refract/prism/dense.h"

namespace refract::prism::testing {

// One that the executor would refuse stays as it is.
[[nodiscard]] inline std::vector<std::byte> dense_of(std::span<const std::byte> plain) {
  DecodedChain decoded;
  if (decode(plain, decoded) != Code::kOk) return {plain.begin(), plain.end()};
  std::vector<OperationHeader> headers;
  for (const Operation& operation : decoded.all()) headers.push_back(operation.header);
  std::array<std::byte, kDenseHeadBytesMax> head{};
  std::vector<std::byte> dense(head.begin(), head.begin() + static_cast<ptrdiff_t>(pack_head(headers, head)));
  for (const Operation& operation : decoded.all()) {
    const std::span<const std::byte> bytes(operation.inline_bytes, inline_bytes_of(operation.header));
    if (bytes.empty()) continue;
    dense.resize(padded(dense.size()));
    dense.insert(dense.end(), bytes.begin(), bytes.end());
  }
  return dense;
}

}  // namespace refract::prism::testing
