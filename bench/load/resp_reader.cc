// SPDX-License-Identifier: Apache-2.0
#include "bench/load/resp_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace refract::bench {

std::span<iovec> RespReader::room() noexcept {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  size_t pieces = 0;
  if (value_left_ > 0) {
    room_[pieces++] = {.iov_base = target_.data() + value_bytes_ - value_left_, .iov_len = value_left_};
  }
  room_[pieces++] = {.iov_base = buffer_.data() + end_, .iov_len = buffer_.size() - end_};
  return std::span(room_).first(pieces);
}

void RespReader::received(size_t bytes) noexcept {
  const uint64_t direct = std::min<uint64_t>(bytes, value_left_);
  value_left_ -= direct;
  end_ += bytes - direct;
}

std::optional<std::string_view> RespReader::line() noexcept {
  const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
  const size_t length = rest.find("\r\n");
  if (length == std::string_view::npos) return {};
  begin_ += length + 2;
  return rest.substr(0, length);
}

Reply RespReader::value_part() noexcept {
  const size_t copied = std::min<uint64_t>(value_left_, end_ - begin_);
  std::memcpy(target_.data() + value_bytes_ - value_left_, buffer_.data() + begin_, copied);
  begin_ += copied;
  value_left_ -= copied;
  if (value_left_ > 0 || end_ - begin_ < 2) return {};
  const bool ended = buffer_[begin_] == '\r' && buffer_[begin_ + 1] == '\n';
  begin_ += 2;
  in_value_ = false;
  return {.kind = ended ? Reply::Kind::kValue : Reply::Kind::kMalformed, .bytes = value_bytes_};
}

Reply RespReader::next() noexcept {
  if (in_value_) return value_part();
  const std::optional<std::string_view> text = line();
  if (!text)
    return {.kind = end_ == buffer_.size() && begin_ == 0 ? Reply::Kind::kMalformed : Reply::Kind::kNone};
  if (text->starts_with('+')) return {.kind = Reply::Kind::kStatus, .text = text->substr(1)};
  if (text->starts_with('-')) return {.kind = Reply::Kind::kError, .text = text->substr(1)};
  if (*text == "$-1") return {.kind = Reply::Kind::kMissing};
  const bool is_array = text->starts_with('*');
  uint64_t bytes = 0;
  const auto [rest, error] = std::from_chars(text->data() + 1, text->data() + text->size(), bytes);
  const bool is_number = error == std::errc() && rest == text->data() + text->size();
  if (is_array && is_number) return {.kind = Reply::Kind::kArray, .bytes = bytes};
  if (!text->starts_with('$') || !is_number || bytes > target_.size())
    return {.kind = Reply::Kind::kMalformed};
  in_value_ = true;
  value_bytes_ = value_left_ = bytes;
  return value_part();
}

}  // namespace refract::bench
