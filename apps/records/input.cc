// SPDX-License-Identifier: Apache-2.0
#include "apps/records/input.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"

namespace refract::records {

Input::Input(Descriptor file, size_t chunk_bytes) noexcept
    : file_(std::move(file)), chunk_bytes_(std::max<size_t>(chunk_bytes, 1)) {}

Input::Input(std::string_view bytes, size_t chunk_bytes) noexcept
    : memory_(bytes), data_(bytes.data()), chunk_bytes_(std::max<size_t>(chunk_bytes, 1)) {}

void Input::consume(size_t bytes) noexcept {
  REFRACT_DCHECK(bytes <= end_ - begin_);
  begin_ += bytes;
  consumed_ += bytes;
}

void Input::make_room() noexcept {
  const size_t kept = end_ - begin_;
  if (kept + chunk_bytes_ <= capacity_) {
    // Sliding costs what is kept, which is at most half of what was read since the last slide.
    if (capacity_ - end_ < chunk_bytes_)
      std::memmove(buffer_.get(), buffer_.get() + begin_, kept);
    else
      return;
  } else {
    const size_t capacity = std::max(2 * capacity_, kept + 2 * chunk_bytes_);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (kept > 0) std::memcpy(larger.get(), buffer_.get() + begin_, kept);
    buffer_ = std::move(larger);
    capacity_ = capacity;
    data_ = buffer_.get();
  }
  begin_ = 0;
  end_ = kept;
}

bool Input::more() noexcept {
  if (!file_.is_open()) {
    const size_t step = std::min(chunk_bytes_, memory_.size() - std::min(end_, memory_.size()));
    end_ += step;
    return step > 0;
  }
  if (error_ != 0) return false;
  make_room();
  ssize_t got;
  do {
    got = ::read(file_.number(), buffer_.get() + end_, capacity_ - end_);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    error_ = errno;
    return false;
  }
  end_ += static_cast<size_t>(got);
  return got > 0;
}

void Input::skip_byte_order_mark() noexcept {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  while (view().size() < kMark.size() && kMark.starts_with(view())) {
    if (!more()) return;
  }
  if (view().starts_with(kMark)) consume(kMark.size());
}

Line next_line(Input& input, uint64_t bytes_max, std::string_view& line) noexcept {
  size_t scanned = 0;
  bool too_long = false;
  for (;;) {
    const std::string_view view = input.view();
    const size_t end = view.find('\n', scanned);
    const size_t have = end == std::string_view::npos ? view.size() : end;
    too_long = too_long || have > bytes_max;
    if (end != std::string_view::npos) {
      line = view.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      input.consume(end + 1);
      return too_long ? Line::kTooLong : Line::kText;
    }
    scanned = view.size();
    if (too_long) {
      input.consume(view.size());
      scanned = 0;
    }
    if (input.more()) continue;
    if (too_long) return Line::kTooLong;
    line = input.view();
    if (line.empty() || input.error() != 0) return Line::kEnd;
    input.consume(line.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    return Line::kText;
  }
}

}  // namespace refract::records
