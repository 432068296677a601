// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a reply: what is accepted can be read to the last byte. And as a chain: what decode()
// accepts lies in the message.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "refract/base/check.h"
#include "refract/prism/decode.h"
#include "refract/prism/reply.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace refract::prism;  // NOLINT(google-build-using-namespace)
  const auto* first = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(first, first + size);
  for (size_t operations = 0; operations <= kOperationsMax + 1; ++operations) {
    const refract::Result<Reply> reply = Reply::of(bytes, operations);
    if (!reply) continue;
    size_t sum = 0;
    for (size_t i = 0; i < reply->operations(); ++i) {
      for (const std::byte byte : reply->bytes(i)) sum += std::to_integer<size_t>(byte);
      sum += reply->word(i) + static_cast<size_t>(reply->code(i));
    }
    REFRACT_CHECK(sum != SIZE_MAX || reply->all_ok());
  }
  DecodedChain decoded;  // NOLINT(cppcoreguidelines-pro-type-member-init): decode fills it.
  const refract::Code code = decode(bytes, decoded);
  REFRACT_CHECK(code == refract::Code::kOk || code == refract::Code::kMalformed);
  for (const Operation& operation : decoded.all()) {
    const uint64_t end =
        static_cast<uint64_t>(operation.inline_bytes - bytes.data()) + inline_bytes_of(operation.header);
    REFRACT_CHECK(end <= bytes.size());
  }
  return 0;
}
