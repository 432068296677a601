// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/reply.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace refract::doors::redis {
namespace {

constexpr std::string_view kEnd = "\r\n";

void append_number(std::string& out, int64_t number) {
  char digits[20];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), number);
  out.append(digits, end);
}

}  // namespace

void Reply::line(char kind, std::string_view text) {
  out_ += kind;
  out_ += text;
  out_ += kEnd;
}

void Reply::count_line(char kind, size_t count) {
  out_ += kind;
  append_number(out_, static_cast<int64_t>(count));
  out_ += kEnd;
}

void Reply::error(std::string_view text) {
  const size_t begin = out_.size() + 1;
  line('-', text);
  const auto is_break = [](char c) { return c == '\r' || c == '\n'; };
  std::replace_if(out_.begin() + static_cast<ptrdiff_t>(begin), out_.end() - 2, is_break, ' ');
}

void Reply::real(double number) {
  constexpr int kDigits = 17;
  char digits[32];
  const auto [end, error] =
      std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::general, kDigits);
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  protocol_ == Protocol::kResp3 ? line(',', text) : bulk(text);
}

void Reply::number(int64_t number) {
  out_ += ':';
  append_number(out_, number);
  out_ += kEnd;
}

void Reply::bulk(std::string_view bytes) {
  count_line('$', bytes.size());
  out_ += bytes;
  out_ += kEnd;
}

void Reply::bulk(View value) {
  if (value.bytes().size() < Replies::kLongBytes) return bulk(value.text());
  count_line('$', value.bytes().size());
  replies_.append(std::move(value));
  out_ += kEnd;
}

void Reply::null() {
  out_ += protocol_ == Protocol::kResp3 ? "_\r\n" : "$-1\r\n";
}

void Reply::null_array() {
  out_ += protocol_ == Protocol::kResp3 ? "_\r\n" : "*-1\r\n";
}

void Reply::map(size_t count) {
  if (protocol_ == Protocol::kResp3) {
    count_line('%', count);
  } else {
    count_line('*', 2 * count);
  }
}

void Reply::text(std::string_view text) {
  if (protocol_ != Protocol::kResp3) return bulk(text);
  count_line('=', text.size() + 4);
  out_ += "txt:";
  out_ += text;
  out_ += kEnd;
}

}  // namespace refract::doors::redis
