// SPDX-License-Identifier: Apache-2.0
// Several sources of pins as one, for a heap whose readers announce themselves in different ways: clients in
// their own pages, the owner itself for views that it reads out on their behalf.
#pragma once

#include <array>
#include <cstddef>

#include "refract/base/check.h"
#include "refract/memory/pins.h"

namespace refract::kv {

class PinSources final : public PinSource {
 public:
  // `source` outlives the heap that asks this object.
  void add(PinSource& source) noexcept {
    REFRACT_CHECK(count_ < sources_.size());
    sources_[count_++] = &source;
  }

  void collect(PinSet& pins) noexcept override {
    for (size_t i = 0; i < count_; ++i) sources_[i]->collect(pins);
  }

 private:
  std::array<PinSource*, 4> sources_{};
  size_t count_ = 0;
};

}  // namespace refract::kv
