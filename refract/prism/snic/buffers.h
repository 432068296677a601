// SPDX-License-Identifier: Apache-2.0
// Where a region's ALLOCATE gets its buffers, and where they go when they are not needed any more.
//
// A buffer is out from allocate() until give_back() or retire(). give_back() is for a buffer that no pointer
// ever led to. retire() is for what was reachable until now: it is reused only when no chain that began
// before it is still under way (hold, release), and not before whatever else an implementation waits for,
// such as pins.
//
// Offsets are the Writer's. Threads: used only by the shard that owns the region. Nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/memory/remote_pointer.h"

namespace refract::prism::snic {

class Buffers {
 public:
  // `bytes` are those of the whole buffer, as give_back() needs them. `stamp` is what a slot word that leads
  // here carries; 0 where buffers have none.
  struct Fresh {
    Offset at;
    uint64_t bytes = 0;
    uint64_t stamp = 0;
  };

  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  virtual ~Buffers() = default;

  // A buffer of the list that holds `data`. kNoSpace: the list is empty. kTooLarge: its buffers are shorter.
  // kInvalidArgument: there is no such list. `data` may still be changed by a peer: it is read once.
  [[nodiscard]] virtual Result<Fresh> allocate(uint64_t list, std::span<const std::byte> data) noexcept = 0;
  void give_back(const Fresh& buffer) noexcept;
  // Whether slot words can name the list's buffers: they start at multiples of kGranuleBytes.
  [[nodiscard]] virtual bool is_granular(uint64_t /*list*/) const noexcept { return true; }

  // Whether this is the start of a buffer that is out and can be retired. Every offset is allowed.
  [[nodiscard]] bool is_out(Offset at) const noexcept;
  // REQUIRES: is_out(at), and nothing in the region leads there any more.
  void retire(Offset at) noexcept;

  // Between the two, what is retired waits. They nest: one pair for each chain under way.
  void hold() noexcept { ++holders_; }
  void release() noexcept;

 protected:
  // Of the buffer that is out and starts here; 0: there is none. What waits counts or not, as it comes.
  [[nodiscard]] virtual uint64_t bytes_out(Offset at) const noexcept = 0;
  // No pointer led to it.
  virtual void take_back(const Fresh& buffer) noexcept = 0;
  // The chains that were under way have ended. `bytes` are what bytes_out() said when it was retired.
  virtual void recycle(Offset at, uint64_t bytes) noexcept = 0;

 private:
  struct Waiting {
    Offset at;
    uint64_t bytes = 0;
  };
  unsigned holders_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace refract::prism::snic
