// SPDX-License-Identifier: Apache-2.0
// Memory of this process alone, touched before it is handed out, on pages of a stated kind.
#pragma once

#include <cstddef>
#include <memory>

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

  [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
  [[nodiscard]] size_t bytes() const noexcept { return memory_.get_deleter().bytes; }

 private:
  struct Unmap {
    size_t bytes = 0;
    void operator()(std::byte* base) const noexcept;
  };

  AnonymousMemory(std::byte* base, size_t bytes) noexcept : memory_(base, Unmap{bytes}) {}
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace refract::bench
