// SPDX-License-Identifier: Apache-2.0
// The software NIC: executes chains beside the memory, on the thread of the shard that owns the regions.
//
// Every address, given or found, is checked against region, key, bounds, rights and alignment before anything
// is touched; an operation that fails has changed nothing. All stores go through the region's Writer. The
// order of the checks is part of the wire form: docs/formats/prism.md. Why it is built this way:
// docs/design/017-prism.md.
//
// A chain is short by its limits and is run to its end by execute(). A Run (run.h) does the same operation by
// operation, so that tests can interleave the chains of several connections.
//
// Nothing allocates after warm-up. Threads: used only by its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/memory/writer.h"
#include "refract/prism/operation.h"
#include "refract/prism/snic/buffers.h"
#include "refract/prism/snic/connection.h"
#include "refract/prism/snic/guard.h"

namespace refract::prism::snic {

struct RegionSpec {
  uint16_t id = 0;             // Not kScratchRegion.
  Writer* writer = nullptr;    // This and those below outlive the region's place here.
  Offset start = {};           // The Writer's offset of the region's first byte: a multiple of kGranuleBytes.
  uint64_t bytes = 0;          // A multiple of 8.
  Buffers* buffers = nullptr;  // Null: nothing can be allocated or retired.
  Guard* guard = nullptr;      // Null: rights alone decide.
};

class Executor {
 public:
  struct Counts {
    uint64_t chains = 0;
    uint64_t malformed_chains = 0;
    std::array<uint64_t, kOpcodes> operations = {};  // Executed, by opcode.
    uint64_t failed_operations = 0;                  // Among them; a comparison that did not hold is none.
    uint64_t failed_comparisons = 0;
    uint64_t cancelled_operations = 0;
    uint64_t bytes_in = 0;   // Of chains.
    uint64_t bytes_out = 0;  // Of replies.
    uint64_t buffers_given_back = 0;
    uint64_t buffers_retired = 0;

    [[nodiscard]] uint64_t all_operations() const noexcept {
      return std::accumulate(operations.begin(), operations.end(), uint64_t{0});
    }
  };

  Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor() = default;

  // Control path. REQUIRES: no Run is open. kExists: the id is taken. kInvalidArgument: the spec contradicts
  // itself.
  [[nodiscard]] Result<> add_region(const RegionSpec& spec);
  // kNotFound; kInvalidArgument: a region never shrinks.
  [[nodiscard]] Result<> grow(uint16_t region, uint64_t bytes) noexcept;
  // Keys for it lead nowhere from now on. REQUIRES: no Run is open.
  void remove_region(uint16_t region) noexcept;
  // Null: there is none. Valid until a region is added or removed.
  [[nodiscard]] const RegionSpec* find(uint16_t region) const noexcept {
    for (const RegionSpec& spec : regions_) {
      if (spec.id == region) return &spec;
    }
    return nullptr;
  }

  // Runs a chain to its end and returns how many bytes of `reply_room` are the reply. kMalformed: the chain
  // as a whole, and nothing was executed. kTooLarge: not even the outcomes fit. The chain may still be
  // changed by its sender meanwhile; it and the room do not overlap.
  [[nodiscard]] Result<size_t> execute(Connection& connection, std::span<const std::byte> chain,
                                       std::span<std::byte> reply_room) noexcept;

  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // Runs that have begun and not ended.
  [[nodiscard]] size_t open_runs() const noexcept { return open_runs_; }

 private:
  friend class Run;

  // Around chains in which something is retired, and around every Run.
  void hold_buffers() noexcept;
  void release_buffers() noexcept;

  std::vector<RegionSpec> regions_;
  std::vector<std::byte> bounce_;  // What a WRITE with indirect data carries from one place to another.
  size_t open_runs_ = 0;
  Counts counts_;
};

}  // namespace refract::prism::snic
