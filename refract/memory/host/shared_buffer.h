// SPDX-License-Identifier: Apache-2.0
// Memory of this process that another one of this host may map and read, without danger to either: a memory
// file that no process can shorten, of which every page is there, and to which no other writer can come.
//
// A process that maps such a file by its descriptor alone cannot be killed by it (a load behind the end of a
// file, or on a page for which there is no memory, is a SIGBUS), and pays for none of its pages.
// is_lendable() is what it checks before.
//
// Threads: any; what its bytes are is the callers' business. A forked child has the descriptor, but not the
// bytes: it would write into its parent's memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/memory/host/descriptor.h"

namespace refract {

class SharedBuffer;

class SharedBufferHold {
 public:
  SharedBufferHold() = default;
  SharedBufferHold(SharedBufferHold&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  SharedBufferHold& operator=(SharedBufferHold&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  SharedBufferHold(const SharedBufferHold&) = delete;
  SharedBufferHold& operator=(const SharedBufferHold&) = delete;
  ~SharedBufferHold() { let_go(); }

  [[nodiscard]] SharedBuffer* get() const noexcept { return buffer_; }
  [[nodiscard]] SharedBuffer& operator*() const noexcept { return *buffer_; }
  [[nodiscard]] SharedBuffer* operator->() const noexcept { return buffer_; }
  [[nodiscard]] explicit operator bool() const noexcept { return buffer_ != nullptr; }
  void let_go() noexcept;
  // For a caller that keeps the pointer alone: adopt() takes it back.
  [[nodiscard]] SharedBuffer* release() noexcept { return std::exchange(buffer_, nullptr); }
  [[nodiscard]] static SharedBufferHold adopt(SharedBuffer* buffer) noexcept {
    return SharedBufferHold(buffer);
  }

 private:
  friend class SharedBuffer;
  explicit SharedBufferHold(SharedBuffer* buffer) noexcept : buffer_(buffer) {}

  SharedBuffer* buffer_ = nullptr;
};

class SharedBuffer {
 public:
  // Takes the memory now, in pages of 2 MiB where the kernel grants them. `bytes` is rounded up to whole
  // pages.
  [[nodiscard]] static Reported<SharedBufferHold> make(uint64_t bytes);
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

  // It lives as long as there is a hold.
  [[nodiscard]] SharedBufferHold hold() noexcept;
  [[nodiscard]] uint32_t holds() const noexcept { return holds_.load(std::memory_order_relaxed); }
  // False in a child of the process that made it.
  [[nodiscard]] bool is_of_this_process() const noexcept;
  // Nothing will be put from it any more: its lender takes it back at the next chance.
  void retire() noexcept { is_retired_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_retired() const noexcept { return is_retired_.load(std::memory_order_relaxed); }

 private:
  friend class SharedBufferHold;
  SharedBuffer() = default;
  ~SharedBuffer();

  Descriptor descriptor_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  std::atomic<uint32_t> holds_ = 0;
  std::atomic<bool> is_retired_ = false;
  int maker_ = 0;  // The process in which the bytes are mapped.
};

// Whether this is such a file, of at least `bytes`.
[[nodiscard]] bool is_lendable(int descriptor, uint64_t bytes) noexcept;

// The first `bytes` of such a file of another process, mapped read-only.
class SharedView {
 public:
  // kMalformed: it is none. Pages come in by faults.
  [[nodiscard]] static Result<SharedView> map(int descriptor, uint64_t bytes) noexcept;
  SharedView(SharedView&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SharedView& operator=(SharedView&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;
  ~SharedView();

  // The other process may be changing them.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, bytes_}; }

 private:
  SharedView(std::byte* data, uint64_t bytes) noexcept : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace refract
