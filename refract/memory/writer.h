// SPDX-License-Identifier: Apache-2.0
// Every store into a space goes through its Writer, in program order, so that the same code that serves
// readers can be taken apart store by store: tests interleave them with a reader's loads, and the simulator
// delays them and crashes between two of them.
//
// Threads: used only by the shard that owns the space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "refract/memory/remote_pointer.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/streaming_copy.h"

namespace refract {

// Told of each store, after the owner's own image has it. An 8-byte store is one call and never torn; `bytes`
// of other calls may reach a reader in any split and order of 8-byte words.
class StoreLog {
 public:
  virtual ~StoreLog() = default;
  virtual void stored(Offset at, std::span<const std::byte> bytes) noexcept = 0;
  // All stores so far are visible to all readers before the owner's next load.
  virtual void fenced() noexcept {}
};

class Writer {
 public:
  explicit Writer(std::byte* base, StoreLog* log = nullptr) noexcept : base_(base), log_(log) {}

  // Publishes a word: readers that observe it see every store made before. REQUIRES: 8-byte alignment.
  void publish(Offset at, uint64_t word) noexcept {
    publish_u64(base_ + at.value, word);
    if (log_ != nullptr) [[unlikely]]
      log_->stored(at, as_bytes(at, sizeof(word)));
  }

  // Publishes 0 in the word that says of bytes that they are whole, before they are changed: no reader that
  // has seen a change finds the old word when it looks again. REQUIRES: 8-byte alignment.
  void withdraw(Offset at) noexcept {
    withdraw_u64(base_ + at.value);
    if (log_ != nullptr) [[unlikely]]
      log_->stored(at, as_bytes(at, sizeof(uint64_t)));
  }

  // Copies bytes that no reader trusts before a later publish.
  void copy(Offset at, std::span<const std::byte> bytes) noexcept {
    store_possibly_torn(base_ + at.value, bytes.data(), bytes.size());
    if (log_ != nullptr) [[unlikely]]
      log_->stored(at, bytes);
  }

  // The same past the caches, for pieces of a large value.
  void copy_streaming(Offset at, std::span<const std::byte> bytes) noexcept {
    store_streaming(base_ + at.value, bytes.data(), bytes.size());
    if (log_ != nullptr) [[unlikely]]
      log_->stored(at, bytes);
  }

  void zero(Offset at, size_t bytes) noexcept;

  // Orders all stores so far before the owner's later loads: for an owner that unlinks, then looks which
  // reader still reads.
  void fence() noexcept {
    store_load_fence();
    if (log_ != nullptr) [[unlikely]]
      log_->fenced();
  }

  // The owner's own view: it always sees its own stores, so plain loads do.
  [[nodiscard]] const std::byte* at(Offset offset) const noexcept { return base_ + offset.value; }
  [[nodiscard]] uint64_t load(Offset offset) const noexcept { return observe_u64(base_ + offset.value); }
  template <typename T>
  [[nodiscard]] const T& view(Offset offset) const noexcept {
    return *reinterpret_cast<const T*>(base_ + offset.value);
  }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }

 private:
  [[nodiscard]] std::span<const std::byte> as_bytes(Offset at, size_t bytes) const noexcept {
    return {base_ + at.value, bytes};
  }

  std::byte* base_;
  StoreLog* log_;
};

}  // namespace refract
