// SPDX-License-Identifier: Apache-2.0
// The bytes that a stream reader has at hand: a window over a file, a pipe or memory that slides and grows on
// demand.
//
// The window grows only when asked by more(), so a reader that bounds what it keeps unconsumed bounds the
// memory. Read by read(2), not mmap: a file that shrinks while it is read must be a short file, not a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "apps/records/descriptor.h"

namespace refract::records {

class Input {
 public:
  static constexpr size_t kChunkBytes = 256 * 1024;

  explicit Input(Descriptor file, size_t chunk_bytes = kChunkBytes) noexcept;
  // Memory, uncovered `chunk_bytes` at a time, so that tests meet every boundary. The bytes must outlive the
  // input.
  Input(std::string_view bytes, size_t chunk_bytes) noexcept;

  // What was read and not yet consumed; the pointer is good until more().
  [[nodiscard]] std::string_view view() const noexcept { return {data_ + begin_, end_ - begin_}; }

  // Makes view() longer. False at the end of the input, or when it could not be read: see error().
  [[nodiscard]] bool more() noexcept;

  // Gives up the first `bytes` of view(). Moves no memory, so texts cut from view() before stay good.
  void consume(size_t bytes) noexcept;

  // An UTF-8 byte order mark at the very beginning belongs to no record.
  void skip_byte_order_mark() noexcept;

  [[nodiscard]] uint64_t consumed() const noexcept { return consumed_; }
  [[nodiscard]] int error() const noexcept { return error_; }  // errno of the failed read, or 0.

 private:
  void make_room() noexcept;

  Descriptor file_;
  std::string_view memory_;
  std::unique_ptr<char[]> buffer_;
  const char* data_ = nullptr;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t chunk_bytes_;
  uint64_t consumed_ = 0;
  int error_ = 0;
};

enum class Line : uint8_t { kText, kTooLong, kEnd };

// Cuts the next line off `input`, without its "\n" or "\r\n"; the text is good until the input is used again.
// A line of more than `bytes_max` bytes is consumed without being kept. kEnd also where reading failed: see
// Input::error().
[[nodiscard]] Line next_line(Input& input, uint64_t bytes_max, std::string_view& line) noexcept;

}  // namespace refract::records
