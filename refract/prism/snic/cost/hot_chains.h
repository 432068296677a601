// SPDX-License-Identifier: Apache-2.0
// The two chains that the executor is measured by, ready to be run again and again on hot memory: a get that
// follows a bounded pointer to 64 bytes, and a put that allocates 64 bytes, swaps them in and retires what
// was there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/check.h"
#include "refract/prism/chain.h"
#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/free_lists.h"

namespace refract::prism::snic {

class HotChains {
 public:
  explicit HotChains(ChainForm form = ChainForm::kPlain) : get_(get_bytes_, form), put_(put_bytes_, form) {
    (void)lists_.add_list({.start = {4096}, .buffer_bytes = 64, .count = 16});
    REFRACT_CHECK(executor_
                      .add_region({.id = 1,
                                   .writer = &writer_,
                                   .start = {0},
                                   .bytes = memory_.size() * 8,
                                   .buffers = &lists_,
                                   .guard = nullptr})
                      .has_value());
    REFRACT_CHECK(connection_.add({.key = kKey, .region = 1, .rights = {ChainRights::kAll}}).has_value());
    writer_.publish({kPair}, RemotePointer::at(1, 1024).bits);
    writer_.publish({kPair + 8}, 64);
    get_.read(RemotePointer::at(1, kPair), kKey, 128).indirect().bounded();
    put_.allocate(RemotePointer::at(1, 0), kKey, value_).redirect(0).owned();
    put_.compare_swap({.address = RemotePointer::at(1, kSlot),
                       .key = kKey,
                       .comparison = Comparison::kGreater,
                       .compare = Operand::of(~uint64_t{0}),
                       .swap = Operand::at(scratch(0))})
        .conditional()
        .retire();
  }
  HotChains(const HotChains&) = delete;
  HotChains& operator=(const HotChains&) = delete;
  ~HotChains() = default;

  // What a client built once.
  [[nodiscard]] std::span<const std::byte> get_message() const { return *get_.finish(); }
  [[nodiscard]] std::span<const std::byte> put_message() const { return *put_.finish(); }
  // How long the reply is.
  size_t run(std::span<const std::byte> message) noexcept {
    return executor_.execute(connection_, message, room_).value_or(0);
  }
  [[nodiscard]] const Executor::Counts& counts() const noexcept { return executor_.counts(); }

 private:
  static constexpr RemoteKey kKey{0x0123'4567'89ab'cdef};
  static constexpr uint64_t kPair = 64;
  static constexpr uint64_t kSlot = 128;

  std::vector<uint64_t> memory_ = std::vector<uint64_t>(1024);
  Writer writer_{reinterpret_cast<std::byte*>(memory_.data())};
  FreeLists lists_{writer_};
  Executor executor_;
  Connection connection_;
  std::array<std::byte, 64> value_{};
  std::array<std::byte, Chain::kHeadersBytesMax + 128> get_bytes_{};
  std::array<std::byte, Chain::kHeadersBytesMax + 128> put_bytes_{};
  Chain get_;
  Chain put_;
  std::array<std::byte, 256> room_{};
};

}  // namespace refract::prism::snic
