// SPDX-License-Identifier: Apache-2.0
// One chain under way.
//
//   Run run(executor, connection);
//   if (const Result<> begun = run.begin(chain, room); !begun) return begun.error();
//   while (run.step()) {}
//   const Result<size_t> reply = run.reply_bytes();
//
// Each step is atomic against all others; between two steps anything may happen, except that no buffer
// retired meanwhile is reused and no region removed. A connection has one Run at a time, since its scratch
// belongs to the chain under way. A Run that is destroyed before its end leaves what it has done, and gives
// back what it owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/prism/decode.h"
#include "refract/prism/snic/executor.h"

namespace refract::prism::snic {

class Run {
 public:
  Run(Executor& executor, Connection& connection) noexcept;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    if (is_open_ || holds_ || owned_count_ > 0) (void)end();
  }

  // As Executor::execute, but nothing has been executed yet. The chain and the room stay until the end. Once.
  [[nodiscard]] Result<> begin(std::span<const std::byte> chain, std::span<std::byte> reply_room) noexcept;
  // Executes the next operation. False: there was none left.
  bool step() noexcept;
  [[nodiscard]] bool done() const noexcept { return next_ == chain_.count; }
  // Ends the chain: what it owned and did not store is given back. How many bytes of the room are the reply.
  size_t end() noexcept;

 private:
  friend class Executor;

  // Where an operation works: in a region, whose Writer takes the stores, or in the scratch.
  struct Workplace {
    std::byte* memory;
    Writer* writer;  // Null: the scratch.
    uint64_t at;     // The Writer's offset; in the scratch, from its start.
    uint64_t left;   // Bytes to the end of the region or the scratch.
    uint64_t bound;  // What a bounded pointer says; else all ones.
  };
  // A buffer that goes back at the end unless its word is stored from the scratch. Without initialisers, so
  // that a Run does not clear what it will not use.
  struct Owned {
    Buffers* buffers;
    uint64_t at;
    uint64_t bytes;
    uint64_t stamp;
    uint64_t word;
    uint32_t scratch_at;
    bool is_stored;

    [[nodiscard]] Buffers::Fresh fresh() const noexcept {
      return {.at = {at}, .bytes = bytes, .stamp = stamp};
    }
  };
  // A compare-and-swap's operands, as words; the last one may be partly used.
  using Words = std::array<uint64_t, kOperandBytesMax / 8>;

  [[nodiscard]] Code take(std::span<const std::byte> chain, std::span<std::byte> reply_room) noexcept;
  void run_next() noexcept;
  [[nodiscard]] Code run(const Operation& operation) noexcept;

  [[nodiscard]] Code reach(RemotePointer given, Workplace& place) noexcept;
  [[nodiscard]] Code reach_in_region(uint64_t offset, Workplace& place) noexcept;
  [[nodiscard]] Code find_target(const Operation& operation, Workplace& place) noexcept;
  [[nodiscard]] bool may(const Workplace& place, uint8_t right, uint64_t bytes) const noexcept;
  [[nodiscard]] bool has_room(uint64_t bytes) const noexcept;
  void put_out(const void* bytes, uint64_t count) noexcept;

  [[nodiscard]] Code read(const Operation& operation) noexcept;
  [[nodiscard]] Code write(const Operation& operation) noexcept;
  [[nodiscard]] Code allocate(const Operation& operation) noexcept;
  [[nodiscard]] Code compare_swap(const Operation& operation) noexcept;
  [[nodiscard]] Code fetch_add(const Operation& operation) noexcept;

  // What a compare-and-swap works with.
  struct SwapWork {
    Workplace place;
    size_t words;
    uint64_t shift;         // Of an operand shorter than a word, in its word.
    uint64_t last_mask;     // The bits of the last word that the operand has.
    uint64_t scratch_from;  // Where in the scratch the swap operand came from; kNotScratch.
    Words raw;              // The memory's words as they are.
    Words stored;           // What of them the operand covers.
    Words compare;
    Words swap;
    Words compare_mask;
    Words swap_mask;
    Words after;
  };
  [[nodiscard]] Code load_swap(const Operation& operation, SwapWork& work) noexcept;
  [[nodiscard]] Code load_operand(const Operation& operation, uint16_t flag, const std::byte* inline_bytes,
                                  Words& words, uint64_t* scratch_from) noexcept;
  [[nodiscard]] Code load_target(const Operation& operation, SwapWork& work) noexcept;
  [[nodiscard]] Code swap_in(const Operation& operation, const SwapWork& work) noexcept;
  [[nodiscard]] Code find_retired(const Operation& operation, const SwapWork& work, Offset& retired) noexcept;
  [[nodiscard]] uint64_t leads_to(const Operation& operation, uint64_t word) const noexcept;
  void retire(Offset at) noexcept;

  // Whether storing `bytes` of the scratch from `scratch_at` on stores the word of this buffer.
  [[nodiscard]] bool is_in(const Owned& owned, uint64_t scratch_at, uint64_t bytes) const noexcept;

  Executor& executor_;
  Connection& connection_;
  DecodedChain chain_;
  std::array<Owned, kOperationsMax> owned_;
  std::span<std::byte> room_;
  size_t next_ = 0;
  size_t reply_bytes_ = 0;
  size_t owned_count_ = 0;
  uint32_t output_bytes_ = 0;  // Of the operation at work.
  Code last_code_ = Code::kOk;
  bool holds_ = false;
  bool is_open_ = false;  // Counted among the executor's.
  // What the key of the operation at work opens; null where it opens nothing.
  const RegionSpec* region_ = nullptr;
  ChainRights rights_;
};

}  // namespace refract::prism::snic
