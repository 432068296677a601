// SPDX-License-Identifier: Apache-2.0
// Loads and stores of memory that another process or a device works on at the same time.
//
// Such bytes are never touched through plain references: each function names its purpose and which two
// observers it orders, so that the reader, the compiler and the thread sanitizer know. On x86-64 every one of
// them is a plain move; what they cost is what they forbid the compiler. See docs/design/003-memory-model.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define REFRACT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define REFRACT_THREAD_SANITIZER 1
#endif
#endif

namespace refract {

// Reads a word that its owner publishes: whatever the owner stored before publishing is seen by later loads.
// REQUIRES: 8-byte alignment (likewise below).
[[nodiscard]] inline uint64_t observe_u64(const void* word) noexcept {
  // atomic_ref needs a mutable object; a load through it writes nothing, also on a read-only mapping.
  auto* place =
      static_cast<uint64_t*>(const_cast<void*>(word));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return std::atomic_ref<uint64_t>(*place).load(std::memory_order_acquire);
}

// Stores a word so that a reader that observes it sees everything stored before.
inline void publish_u64(void* word, uint64_t value) noexcept {
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)).store(value, std::memory_order_release);
}

// Withdraws the word that says of some bytes that they are whole, before they are changed: a reader that has
// copied one of the changes, and looks at the word again behind load_load_fence(), finds 0. The other half of
// that fence. On x86-64 a plain move; elsewhere a barrier between stores. Stores past the caches are not
// ordered by it (streaming_copy.h has a fence of its own).
inline void withdraw_u64(void* word) noexcept {
#ifdef REFRACT_THREAD_SANITIZER
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)).store(0, std::memory_order_release);
#else
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

// Publishes and orders the store before every later load of this thread: for announcements ("I hold this", "I
// sleep") that must be visible before the announcer looks again. An exchange: mfence costs tens of
// nanoseconds more.
inline void announce_u64(void* word, uint64_t value) noexcept {
  (void)std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)).exchange(value, std::memory_order_seq_cst);
}

// Orders this thread's earlier stores before its later loads: the other half of announce_u64.
inline void store_load_fence() noexcept {
#ifdef REFRACT_THREAD_SANITIZER
  // The sanitizer does not model fences; an exchange on a local word has the same effect on the processor.
  std::atomic<uint64_t> word = 0;
  (void)word.exchange(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Between copying possibly torn bytes and looking again at the word that says whether they were.
inline void load_load_fence() noexcept {
#ifndef REFRACT_THREAD_SANITIZER
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

// Copies bytes that their owner may be changing. The copy may mix old and new; the caller finds that out by a
// stamp and throws the copy away. Never branch on the bytes before that.
inline void copy_possibly_torn(void* target, const void* source, size_t bytes) noexcept {
#ifdef REFRACT_THREAD_SANITIZER
  auto* to = static_cast<unsigned char*>(target);
  auto* from = static_cast<unsigned char*>(const_cast<void*>(source));
  for (size_t i = 0; i < bytes; ++i) {
    to[i] = std::atomic_ref<unsigned char>(from[i]).load(std::memory_order_acquire);
  }
#else
  std::memcpy(target, source, bytes);
  std::atomic_signal_fence(std::memory_order_acquire);
#endif
}

// The owner's side of copy_possibly_torn.
inline void store_possibly_torn(void* target, const void* source, size_t bytes) noexcept {
#ifdef REFRACT_THREAD_SANITIZER
  auto* to = static_cast<unsigned char*>(target);
  const auto* from = static_cast<const unsigned char*>(source);
  for (size_t i = 0; i < bytes; ++i)
    std::atomic_ref<unsigned char>(to[i]).store(from[i], std::memory_order_relaxed);
#else
  std::memcpy(target, source, bytes);
  std::atomic_signal_fence(std::memory_order_release);
#endif
}

}  // namespace refract
