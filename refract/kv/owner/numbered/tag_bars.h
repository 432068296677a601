// SPDX-License-Identifier: Apache-2.0
// Which operations of a session stand in front of others: those that were refused for now, or wait
// (docs/design/077, section 3). The owner executes nothing of a tag behind an operation of it that has no
// outcome, so a tag has a bar while there is one: the numbers of all that it has refused, in their order, of
// which the first alone passes.
//
// There are mostly none, and then nothing is looked up. Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "refract/base/secret_hash.h"

namespace refract::kv {

class TagBars {
 public:
  // In all bars: as many operations as one client has under way. One that has more keeps no order.
  static constexpr size_t kNumbersMax = 1024;

  // Whether an operation may be executed now, if nothing else refuses it. `tag` 0: no tag. `number` 0, of a
  // condition: not while there is a bar.
  [[nodiscard]] bool passes(uint32_t tag, uint64_t number) const noexcept {
    return bars_.empty() || tag == 0 || is_first(tag, number);
  }
  // It was refused for now, or begins to wait. False: there are too many. REQUIRES: neither is 0.
  [[nodiscard]] bool add(uint32_t tag, uint64_t number);
  // It has an outcome, or was withdrawn. Nothing happens where it is in no bar.
  void take_out(uint32_t tag, uint64_t number) noexcept {
    if (!bars_.empty()) [[unlikely]]
      take_out_of_bar(tag, number);
  }
  // Of a connection that has ended.
  void clear() noexcept;

  [[nodiscard]] bool empty() const noexcept { return bars_.empty(); }
  [[nodiscard]] size_t count() const noexcept { return bars_.size(); }
  [[nodiscard]] size_t numbers() const noexcept { return numbers_; }

 private:
  [[nodiscard]] bool is_first(uint32_t tag, uint64_t number) const noexcept;
  void take_out_of_bar(uint32_t tag, uint64_t number) noexcept;

  // Clients choose their tags. Numbers rise; a bar is not empty.
  std::unordered_map<uint32_t, std::vector<uint64_t>, SecretHasher> bars_;
  size_t numbers_ = 0;
};

}  // namespace refract::kv
