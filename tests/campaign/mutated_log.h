// SPDX-License-Identifier: Apache-2.0
// What others learn of a server's stores; as a mutation, in an order in which no server may make them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/campaign/mutation.h"

#include "refract/fabric/sim/visible_memory.h"
#include "refract/memory/space.h"
#include "refract/memory/writer.h"

namespace refract::campaign {

class MutatedLog final : public StoreLog {
 public:
  MutatedLog(sim::VisibleMemory& memory, Mutation mutation) noexcept : memory_(memory), mutation_(mutation) {}
  ~MutatedLog() override { catch_up(); }
  MutatedLog(const MutatedLog&) = delete;
  MutatedLog& operator=(const MutatedLog&) = delete;

  void stored(Offset at, std::span<const std::byte> bytes) noexcept override;
  void fenced() noexcept override;

  // As Mutation::kWordFirst: what is stored from now on is told later, at the end of it.
  void hold_all(bool held) noexcept;

 private:
  // True: this store is told later.
  [[nodiscard]] bool is_held(Offset at, uint64_t word) noexcept;
  [[nodiscard]] bool is_in_chunk(Offset at, ChunkKind kind) const noexcept;
  // Of the bucket in which this word lies; UINT64_MAX: it lies in none.
  [[nodiscard]] uint64_t bucket_of(Offset at) const noexcept;
  void catch_up() noexcept;

  sim::VisibleMemory& memory_;
  Mutation mutation_;
  bool holds_all_ = false;
  std::vector<Offset> held_;  // Words, in the order in which they were stored.
};

}  // namespace refract::campaign
