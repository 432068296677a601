// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/replies.h"

#include <algorithm>
#include <utility>

namespace refract::doors::redis {
namespace {

// What a connection keeps while it has nothing to say.
constexpr size_t kTextKeptBytes = size_t{16} * 1024;
// More of sent text is erased while text behind it waits.
constexpr size_t kSentTextMax = size_t{64} * 1024;

}  // namespace

void Replies::append(View value) {
  if (values_.size() >= kPinnedMax) {
    text_ += value.text();
    return;
  }
  value_bytes_ += value.bytes().size();
  if (!value.is_copy()) {
    ++pinned_;
    pinned_bytes_ += value.bytes().size();
  }
  values_.push_back({.at = text_.size(), .view = std::move(value)});
}

void Replies::append(const SharedText& text) {
  if (values_.size() >= kSharedMax) {
    text_ += text.text();
    return;
  }
  value_bytes_ += text.text().size();
  shared_bytes_ += text.text().size();
  values_.push_back({.at = text_.size(), .shared = text});
}

void Replies::append(Replies& other) {
  if (values_.size() + other.values_.size() > kPinnedMax) other.copy_pinned();
  for (Value& value : other.values_) {
    value.at += text_.size();
    values_.push_back(std::move(value));
  }
  value_bytes_ += std::exchange(other.value_bytes_, 0);
  pinned_ += std::exchange(other.pinned_, 0);
  pinned_bytes_ += std::exchange(other.pinned_bytes_, 0);
  shared_bytes_ += std::exchange(other.shared_bytes_, 0);
  text_ += other.text_;
  other.text_.clear();
  other.values_.clear();
}

void Replies::copy_pinned() {
  if (values_.empty()) return;
  std::string text;
  text.reserve(bytes());
  size_t at = text_sent_;
  size_t begin = value_sent_;
  for (const Value& value : values_) {
    text.append(text_, at, value.at - at);
    text += value.text().substr(std::exchange(begin, 0));
    at = value.at;
  }
  text.append(text_, at);
  *this = Replies();
  text_ = std::move(text);
}

size_t Replies::gather(std::span<iovec> pieces, size_t bytes_max) const noexcept {
  size_t count = 0;
  size_t at = text_sent_;
  size_t begin = value_sent_;
  // sendmsg() only reads.
  const auto add = [&](const char* from, size_t bytes) {
    bytes = std::min(bytes, bytes_max);
    bytes_max -= bytes;
    if (bytes > 0) pieces[count++] = {.iov_base = const_cast<char*>(from), .iov_len = bytes};
  };
  for (auto value = values_.begin(); value != values_.end() && count + 2 < pieces.size(); ++value) {
    add(text_.data() + at, value->at - at);
    const std::string_view bytes = value->text().substr(std::exchange(begin, 0));
    add(bytes.data(), bytes.size());
    at = value->at;
  }
  const size_t end = count + 2 < pieces.size() ? text_.size() : at;
  add(text_.data() + at, end - at);
  return count;
}

void Replies::sent(size_t bytes) {
  while (bytes > 0) {
    const size_t end = values_.empty() ? text_.size() : values_.front().at;
    const size_t of_text = std::min(bytes, end - text_sent_);
    text_sent_ += of_text;
    bytes -= of_text;
    if (bytes == 0 || values_.empty()) break;
    const Value& first = values_.front();
    const bool is_pinned = !first.view.is_copy();
    const size_t of_value = std::min(bytes, first.text().size() - value_sent_);
    value_sent_ += of_value;
    value_bytes_ -= of_value;
    pinned_bytes_ -= is_pinned ? of_value : 0;
    shared_bytes_ -= first.shared ? of_value : 0;
    bytes -= of_value;
    if (value_sent_ < first.text().size()) break;
    pinned_ -= is_pinned ? 1 : 0;
    value_sent_ = 0;
    values_.erase(values_.begin());
  }
  forget_sent_text();
}

void Replies::forget_sent_text() {
  if (is_empty()) {
    text_.clear();
    text_sent_ = 0;
    if (text_.capacity() > kTextKeptBytes) text_.shrink_to_fit();
    return;
  }
  // What is moved was sent as often.
  if (text_sent_ < std::max(kSentTextMax, text_.size() / 2)) return;
  text_.erase(0, text_sent_);
  if (text_.capacity() > 4 * text_.size() + kSentTextMax) text_.shrink_to_fit();
  for (Value& value : values_) value.at -= text_sent_;
  text_sent_ = 0;
}

}  // namespace refract::doors::redis
