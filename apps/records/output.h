// SPDX-License-Identifier: Apache-2.0
// Where writers put their bytes: a file through a buffer, or a string.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "apps/records/descriptor.h"

#include "refract/base/report.h"

namespace refract::records {

class Output {
 public:
  // `is_terminal`: people look at it, so that what cannot be printed is spelled (refract/base/printable.h).
  Output(Descriptor file, std::string name, bool is_terminal = false) noexcept
      : file_(std::move(file)), name_(std::move(name)), is_terminal_(is_terminal) {}
  explicit Output(std::string& out) noexcept : target_(&out) {}

  // To append to; call settle() now and then.
  [[nodiscard]] std::string& text() noexcept { return target_ != nullptr ? *target_ : buffer_; }

  // Writes the buffer out where it has become large. After a failure nothing is written any more.
  void settle() noexcept {
    if (target_ == nullptr && buffer_.size() >= kBufferBytes) flush();
  }

  // The failure there was, if any; remembered.
  [[nodiscard]] Reported<> status() const;
  [[nodiscard]] Reported<> finish();

  // Appends `value` piece by piece by `append(text, piece)`, so that a large value does not become a large
  // buffer.
  template <typename Append>
  void put(std::string_view value, Append append) {
    while (!value.empty()) {
      append(text(), value.substr(0, kPieceBytes));
      value.remove_prefix(value.size() < kPieceBytes ? value.size() : kPieceBytes);
      settle();
    }
  }

 private:
  static constexpr size_t kBufferBytes = 256 * 1024;
  static constexpr size_t kPieceBytes = 3 * 32 * 1024;  // A multiple of 3, for base64.

  void flush() noexcept;
  void write_out(std::string_view bytes) noexcept;

  Descriptor file_;
  std::string name_;
  std::string buffer_;
  std::string* target_ = nullptr;
  bool is_terminal_ = false;
  int error_ = 0;
};

}  // namespace refract::records
