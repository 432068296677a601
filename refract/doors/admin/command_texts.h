// SPDX-License-Identifier: Apache-2.0
// What is told of the commands for people and their tools: COMMAND DOCS and COMMAND INFO. Facts that
// tools compare are as Redis 7.0.15 tells them, without their history; summaries and help are our own words.
//
// Threads: any.
#pragma once

#include <span>
#include <string_view>

namespace refract::doors::redis {

struct CommandText {
  std::string_view name;  // "client|list" of a subcommand.
  std::string_view since;
  std::string_view group;
  std::string_view summary;
  // Of access lists, without those that the flags of its row say.
  std::string_view categories = {};
  std::string_view tips = {};
  // Of each place where keys stand: "RW access|OW update". Empty: it has no keys.
  std::string_view key_flags = {};
  // One behind the other: name,type#KEYS=TOKEN@SINCE~DEPRECATED and then ?: optional, *: several, +: the
  // token stands before each, and parts in parentheses. The type is a letter: k key, s string, i integer, d
  // double, p pattern, u unix-time, t pure-token, o oneof, b block. KEYS: which place of keys it is.
  std::string_view arguments = {};
};

// In the order of their names. Of commands of keys, and of all others.
[[nodiscard]] std::span<const CommandText> texts_of_keys() noexcept;
[[nodiscard]] std::span<const CommandText> texts_of_others() noexcept;

// Null: there is none.
[[nodiscard]] const CommandText* text_of(std::string_view name) noexcept;

}  // namespace refract::doors::redis
