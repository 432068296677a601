// SPDX-License-Identifier: Apache-2.0
// Memory of this process alone, touched before it is handed out, on pages of a stated kind.
#pragma once

#include <cstddef>
#include <utility>

#include "refract/base/report.h"

namespace refract::bench {

enum class Pages : unsigned char {
  kSmall,        // 4 KiB, as a memfd has them.
  kTransparent,  // 2 MiB where the kernel grants them (madvise).
  kHuge,         // 2 MiB that were set aside, as hugetlb: has them.
};

class AnonymousMemory {
 public:
  [[nodiscard]] static Reported<AnonymousMemory> create(size_t bytes, Pages pages);
  AnonymousMemory(AnonymousMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  AnonymousMemory(const AnonymousMemory&) = delete;
  AnonymousMemory& operator=(const AnonymousMemory&) = delete;
  ~AnonymousMemory();

  [[nodiscard]] std::byte* data() const noexcept { return base_; }
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

 private:
  AnonymousMemory(std::byte* base, size_t bytes) noexcept : base_(base), bytes_(bytes) {}
  std::byte* base_;
  size_t bytes_;
};

}  // namespace refract::bench
