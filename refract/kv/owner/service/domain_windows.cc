// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/domain_windows.h"

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::kv {

DomainWindows::~DomainWindows() {
  REFRACT_CHECK(open_count_ == 0);
}

std::optional<Window> DomainWindows::open(std::span<std::byte> bytes, Rights rights) {
  // A fresh id as long as there are some, so that few are used twice at all.
  if (ids_used_ < kWindowsMax) {
    free_.push_front(static_cast<uint16_t>(kFirstRegion + ids_used_++));
  } else if (free_.empty()) {
    return std::nullopt;
  }
  const uint16_t id = free_.front();
  free_.pop_front();
  const uint64_t first = reinterpret_cast<uintptr_t>(bytes.data()) % kPageBytes;
  const Reported<RemoteKey> key = domain_.register_region(
      {.region = id, .base = bytes.data(), .bytes = bytes.size(), .rights = rights, .first = first});
  if (!key) {
    free_.push_back(id);
    return std::nullopt;
  }
  ++open_count_;
  return Window{.address = RemotePointer::at(id, first), .key = *key};
}

uint64_t DomainWindows::close(const Window& window) noexcept {
  const uint64_t written_bytes = domain_.revoke_region(window.address.region());
  free_.push_back(window.address.region());
  --open_count_;
  return written_bytes;
}

}  // namespace refract::kv
