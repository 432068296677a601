// SPDX-License-Identifier: Apache-2.0
// Replies of Redis's protocol, RESP2 and RESP3, written behind others.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "refract/doors/redis/replies.h"

namespace refract::doors::redis {

enum class Protocol : uint8_t { kResp2 = 2, kResp3 = 3 };

class Reply {
 public:
  // `out` outlives this.
  Reply(Replies& out, Protocol protocol) noexcept : out_(out.text()), replies_(out), protocol_(protocol) {}

  void ok() { out_ += "+OK\r\n"; }
  // Without line breaks: simple strings and errors end with one.
  void simple(std::string_view text) { line('+', text); }
  // Its first word says what is wrong: "ERR", "OOM". Line breaks become spaces.
  void error(std::string_view text);
  void number(int64_t number);
  // Which need not be whole.
  void real(double number);
  void bulk(std::string_view bytes);
  // The same, which stays where it is until it is sent, where it is long.
  void bulk(View value);
  void null();
  void null_array();
  // In which the rest is written: HELLO's reply is in the protocol that it asks for.
  void speak(Protocol protocol) noexcept { protocol_ = protocol; }
  // So many replies follow; of a map twice as many.
  void array(size_t count) { count_line('*', count); }
  void map(size_t count);
  // What comes without being asked for, in RESP3; else an array.
  void push(size_t count) { count_line(push_letter(protocol_), count); }
  // Each of them once.
  void set(size_t count) { count_line(protocol_ == Protocol::kResp3 ? '~' : '*', count); }
  // Text for people: a verbatim string in RESP3.
  void text(std::string_view text);
  [[nodiscard]] Protocol protocol() const noexcept { return protocol_; }
  [[nodiscard]] static char push_letter(Protocol protocol) noexcept {
    return protocol == Protocol::kResp3 ? '>' : '*';
  }

 private:
  void line(char kind, std::string_view text);
  void count_line(char kind, size_t count);

  std::string& out_;
  Replies& replies_;
  Protocol protocol_;
};

}  // namespace refract::doors::redis
