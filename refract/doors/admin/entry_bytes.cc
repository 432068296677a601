// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/entry_bytes.h"

#include "refract/kv/layout/layout.h"
#include "refract/memory/size_class.h"

namespace refract::doors::redis {

uint64_t entry_bytes(size_t key_bytes, const Got& got) noexcept {
  const kv::Lengths lengths{
      .value_bytes = static_cast<uint32_t>(got.value_bytes),
      .key_bytes = static_cast<uint16_t>(key_bytes),
      .flags = got.expires_wall_ns != 0 ? kv::Lengths::kExpires : uint16_t{0},
  };
  const uint64_t content = lengths.content_bytes();
  const uint64_t granules = (content + kExtentGranuleBytes - 1) / kExtentGranuleBytes;
  const uint64_t buffer =
      content <= kSlabBytesMax ? kClassBytes[size_class_of(content)] : granules * kExtentGranuleBytes;
  return buffer + sizeof(kv::Slot);
}

}  // namespace refract::doors::redis
