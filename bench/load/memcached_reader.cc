// SPDX-License-Identifier: Apache-2.0
#include "bench/load/memcached_reader.h"

#include <algorithm>
#include <cstring>

namespace refract::bench {
namespace {

constexpr uint8_t kRequestMagic = 0x80;
constexpr uint8_t kReplyMagic = 0x81;
constexpr size_t kSetExtrasBytes = 8;
constexpr uint64_t kTextBytesMax = 4096;

uint64_t number_at(const char* at, size_t bytes) noexcept {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) number = number << 8 | static_cast<uint8_t>(at[i]);
  return number;
}

void write_number(char* at, size_t bytes, uint64_t number) noexcept {
  for (size_t i = bytes; i-- > 0; number >>= 8) at[i] = static_cast<char>(number & 0xff);
}

}  // namespace

size_t write_request(const MemcachedRequest& request,
                     std::span<char, kMemcachedRequestBytesMax> to) noexcept {
  const size_t extras = request.op == MemcachedOp::kSet ? kSetExtrasBytes : 0;
  std::memset(to.data(), 0, to.size());
  to[0] = static_cast<char>(kRequestMagic);
  to[1] = static_cast<char>(request.op);
  write_number(&to[2], 2, request.key_bytes);
  to[4] = static_cast<char>(extras);
  write_number(&to[8], 4, extras + request.key_bytes + request.value_bytes);
  write_number(&to[16], 8, request.version);
  return kMemcachedHeadBytes + extras;
}

std::span<iovec> MemcachedReader::room() noexcept {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  size_t pieces = 0;
  if (value_left_ > 0) {
    room_[pieces++] = {.iov_base = target_.data() + reply_.bytes - value_left_, .iov_len = value_left_};
  }
  room_[pieces++] = {.iov_base = buffer_.data() + end_, .iov_len = buffer_.size() - end_};
  return std::span(room_).first(pieces);
}

void MemcachedReader::received(size_t bytes) noexcept {
  const uint64_t direct = std::min<uint64_t>(bytes, value_left_);
  value_left_ -= direct;
  end_ += bytes - direct;
}

MemcachedReply MemcachedReader::value_part() noexcept {
  const size_t copied = std::min<uint64_t>(value_left_, end_ - begin_);
  std::memcpy(target_.data() + reply_.bytes - value_left_, buffer_.data() + begin_, copied);
  begin_ += copied;
  value_left_ -= copied;
  if (value_left_ > 0) return {};
  in_value_ = false;
  return reply_;
}

MemcachedReply MemcachedReader::next() noexcept {
  if (in_value_) return value_part();
  const char* head = buffer_.data() + begin_;
  const size_t there = end_ - begin_;
  if (there < kMemcachedHeadBytes) return {};
  const uint64_t before_value = number_at(head + 2, 2) + number_at(head + 4, 1);
  const uint64_t body = number_at(head + 8, 4);
  const uint16_t status = static_cast<uint16_t>(number_at(head + 6, 2));
  const uint64_t bytes = body - before_value;
  const bool is_ok = status == static_cast<uint16_t>(MemcachedStatus::kOk);
  const uint64_t bytes_max = is_ok ? target_.size() : kTextBytesMax;
  if (static_cast<uint8_t>(head[0]) != kReplyMagic || before_value > body || before_value > kTextBytesMax ||
      bytes > bytes_max) {
    return {.kind = MemcachedReply::Kind::kMalformed};
  }
  if (there < kMemcachedHeadBytes + (is_ok ? before_value : body)) return {};
  reply_ = {.kind = MemcachedReply::Kind::kAnswer,
            .op = static_cast<MemcachedOp>(head[1]),
            .status = status,
            .version = number_at(head + 16, 8),
            .bytes = is_ok ? bytes : 0};
  begin_ += kMemcachedHeadBytes + before_value;
  if (!is_ok) {
    reply_.text = std::string_view(buffer_.data() + begin_, bytes);
    begin_ += bytes;
    return reply_;
  }
  in_value_ = true;
  value_left_ = bytes;
  return value_part();
}

}  // namespace refract::bench
