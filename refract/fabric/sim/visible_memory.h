// SPDX-License-Identifier: Apache-2.0
// What other cores see of a memory that its owner is storing to: everything up to some store, and nothing
// after it.
//
// The owner works on its own image. Each of its stores (told through StoreLog) waits in a log, and the image
// that all others see runs behind by a suffix of that log. On x86-64 stores become visible in program order
// and to all readers at once, so this one ever-advancing prefix is the whole model, with nothing left out:
//   (V1) The visible image is the first image plus the first visible() stores of the log.
//   (V2) visible() never goes back, and is at most position().
//   (V3) What the owner said after its store number p (a message, a fence) is not noticed before visible() >=
//        p. The simulated domain sees to that for messages; Writer::fence for fences.
// Stores are split into aligned 8-byte words. The words of one large store may become visible in any order,
// because no copy routine promises one. See docs/design/008-simulation.md.
//
// A space is one VisibleMemory: the order between two of them is not modelled. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/prng.h"
#include "refract/memory/remote_pointer.h"
#include "refract/memory/writer.h"

namespace refract::sim {

inline constexpr uint64_t kWordBytes = sizeof(uint64_t);

// One aligned 8-byte store.
struct Store {
  Offset at;
  uint64_t word = 0;
};

class VisibleMemory final : public StoreLog {
 public:
  struct Options {
    uint64_t bytes = 0;      // Of the space now; a multiple of 8 (likewise below).
    uint64_t bytes_max = 0;  // What extend() may reach; at least `bytes` is taken.
    // The owner's image, which stays the caller's; null: zeroes, owned by this object.
    std::byte* owner = nullptr;
    uint64_t seed = 1;
    uint64_t lag_words_max = 1 << 14;  // More stores than this are never held back.
    double shuffle_chance = 0.5;       // That a large store's words become visible in disorder.
  };
  // Everything that an owner's image already holds is visible.
  explicit VisibleMemory(const Options& options);
  // Begins with a copy of `image`, as after a restart from what a crash left.
  VisibleMemory(const Options& options, std::span<const std::byte> image);

  // The owner's image: `Writer(memory.owner(), &memory)`.
  [[nodiscard]] std::byte* owner() noexcept { return owner_; }
  [[nodiscard]] const std::byte* owner() const noexcept { return owner_; }
  // What every other host sees.
  [[nodiscard]] const std::byte* image() const noexcept { return image_.get(); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  // The space grows; the new bytes are visible at once, as the owner has them. REQUIRES: at most bytes_max.
  void extend(uint64_t bytes);

  void stored(Offset at, std::span<const std::byte> bytes) noexcept override;
  void fenced() noexcept override { make_visible(position()); }

  // Words stored, and words visible, since the beginning.
  [[nodiscard]] uint64_t position() const noexcept { return first_ + log_.size(); }
  [[nodiscard]] uint64_t visible() const noexcept { return visible_; }

  // Makes at least the first `position` words visible.
  void make_visible(uint64_t position) noexcept;
  // Makes a few more stores visible: often none, sometimes one, rarely many.
  void advance_random(Prng& prng) noexcept;

  // A device or peer stores a word directly: it meets the owner's stores in memory, so those go first.
  void store_from_outside(Offset at, std::span<const std::byte> bytes) noexcept;

  // Where a crash may fall: between any two stores that no reader has noticed yet.
  [[nodiscard]] uint64_t draw_crash_position(Prng& prng) const noexcept;
  // The bytes that survive a crash at draw_crash_position(); the memory itself is left as it is.
  [[nodiscard]] std::vector<std::byte> crash_image(Prng& prng) const;
  // Nothing after `position` becomes visible any more, whatever the owner still does: it is about to crash
  // there.
  void freeze(uint64_t position) noexcept { limit_ = position; }
  // The crash itself: the owner's image loses what was stored after `position`, and the rest is visible.
  // REQUIRES: visible() <= position <= position().
  void crash(uint64_t position) noexcept;
  // The machine is gone: zeroes.
  void wipe() noexcept;

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };
  using Image = std::unique_ptr<std::byte[], Free>;
  [[nodiscard]] static Image zeroes(uint64_t bytes);

  void apply(const Store& store) noexcept;
  void forget_applied() noexcept;

  Image owned_;
  Image image_;
  std::byte* owner_;
  uint64_t bytes_;
  uint64_t bytes_max_;
  uint64_t lag_words_max_;
  double shuffle_chance_;
  Prng prng_;
  std::vector<Store>
      log_;  // The stores from number first_ on; those below visible_ are only waiting for removal.
  uint64_t first_ = 0;
  uint64_t visible_ = 0;
  uint64_t limit_ = UINT64_MAX;
};

// Decides what becomes visible before a load.
class LoadSchedule {
 public:
  virtual ~LoadSchedule() = default;
  // The aligned word at `at` is about to be loaded.
  virtual void before_load(Offset at) noexcept = 0;
  // A copy is about to be made: true for last word first.
  [[nodiscard]] virtual bool next_copy_is_backward() noexcept { return false; }
  // How many of the owner's stores a load sees now.
  [[nodiscard]] virtual uint64_t position() const noexcept = 0;
};

// The memory policy of a direct reader: each of its loads may find that the owner has got further. A handle,
// copied freely; `bytes` is what the reader has mapped, and a load outside is a failed check, as it would be
// a fault.
class ReaderMemory {
 public:
  ReaderMemory(const std::byte* image, uint64_t bytes, LoadSchedule* schedule) noexcept
      : image_(image), bytes_(bytes), schedule_(schedule) {}

  // REQUIRES: 8-byte alignment.
  [[nodiscard]] uint64_t observe(Offset at) const noexcept;
  // Word by word, left to right or right to left; any alignment.
  void copy(void* target, Offset at, size_t bytes) const noexcept;
  // Whether the bytes there are these: as if copied and compared.
  [[nodiscard]] bool equals(Offset at, std::span<const std::byte> bytes) const noexcept;
  void prefetch(Offset) const noexcept {}
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }

  // The owner's stores visible now: a value is right if it was current at some moment between this number
  // before the read and this number after it.
  [[nodiscard]] uint64_t position() const noexcept { return schedule_->position(); }

 private:
  const std::byte* image_;
  uint64_t bytes_;
  LoadSchedule* schedule_;
};

// A direct reader of a VisibleMemory whose loads are interleaved with the owner's last stores by a seed. With
// `stall`, some loads are preceded by a long time in which others work: World::reader makes such a one.
class SeededReader final : public LoadSchedule {
 public:
  struct Options {
    uint64_t seed = 1;
    double stall_chance = 0;  // Before each load.
    std::function<void()> stall = {};
  };
  SeededReader(VisibleMemory& memory, Options options);

  // With all bytes that the space has now.
  [[nodiscard]] ReaderMemory memory() noexcept { return {memory_->image(), memory_->bytes(), this}; }

  void before_load(Offset at) noexcept override;
  [[nodiscard]] bool next_copy_is_backward() noexcept override { return prng_.chance(0.25); }
  [[nodiscard]] uint64_t position() const noexcept override { return memory_->visible(); }

 private:
  VisibleMemory* memory_;
  Options options_;
  Prng prng_;
};

}  // namespace refract::sim
