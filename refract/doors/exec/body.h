// SPDX-License-Identifier: Apache-2.0
// What a transaction of a door has of its keys while its commands run: what was read of them, and what the
// commands have made of that. Nothing of it leaves the process before the commit (docs/design/071).
//
// Commands run in passes. What one asks for that is not known yet counts as absent, and is noted: it is read,
// and all commands run again, on the same time. So no command has to say beforehand what it needs.
//
// Threads: that of the door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "refract/kv/functions/functions.h"

namespace refract::doors::redis {

class Body {
 public:
  // Of all values that were made and stand, and of all that were read. More is too large.
  static constexpr size_t kBytesMax = size_t{16} << 20;

  // How much of a key is known, or needed.
  enum class Depth : uint8_t { kNothing, kHead, kValue };
  enum class Wrote : uint8_t { kNothing, kPut, kErased };

  struct Entry {
    std::string_view key;  // Lent by the words of the commands.
    Depth needed = Depth::kNothing;
    // As it was read. Version 0: it was absent.
    Depth known = Depth::kNothing;
    uint64_t version = 0;
    uint64_t value_bytes = 0;
    uint64_t expires_wall_ns = 0;
    std::string value = {};
    // Of this pass:
    bool is_used = false;  // What was read counts, so the commit depends on it.
    Wrote wrote = Wrote::kNothing;
    std::string made = {};
    std::string_view lent = {};  // Instead of it, where its bytes are a command's own.
    bool is_lent = false;
    uint64_t new_expires_wall_ns = 0;

    // Of kPut.
    [[nodiscard]] std::string_view new_value() const noexcept {
      return is_lent ? lent : std::string_view(made);
    }
  };

  // A key as a command sees it.
  struct Head {
    bool is_there = false;
    uint64_t value_bytes = 0;
    uint64_t expires_wall_ns = 0;  // A whole millisecond; 0: never.
  };

  Body() = default;
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body() = default;

  // For commands. Keys and lent values live as long as this.
  // Store time, the same for all commands of a pass.
  [[nodiscard]] uint64_t now_ns() const noexcept { return now_ns_; }
  [[nodiscard]] Head head(std::string_view key);
  // The value stays until the key is written.
  [[nodiscard]] kv::functions::Before value(std::string_view key);
  void put(std::string_view key, std::string value, uint64_t expires_wall_ns);
  void put_lent(std::string_view key, std::string_view value, uint64_t expires_wall_ns);
  void erase(std::string_view key);
  // Runs the row on what the key has. kTooLarge: of the table, or of this.
  [[nodiscard]] kv::functions::Plan run(std::string_view key, kv::functions::Function function,
                                        std::span<const std::byte> arguments);
  // A key that a command has looked for, for what INFO tells.
  void count_read(bool is_hit) noexcept { ++(is_hit ? hits_ : misses_); }

  // For what runs them. A new attempt: nothing is known. What was needed still is.
  void forget_reads() noexcept;
  // A new pass: nothing is written.
  void begin(uint64_t now_ns) noexcept;
  [[nodiscard]] bool lacks() const noexcept { return lacking_ > 0; }
  [[nodiscard]] bool is_too_large() const noexcept { return is_too_large_ || made_bytes_ > kBytesMax; }
  // How many bytes the commands have copied since the begin.
  [[nodiscard]] uint64_t work() const noexcept { return work_; }
  [[nodiscard]] uint64_t hits() const noexcept { return hits_; }
  [[nodiscard]] uint64_t misses() const noexcept { return misses_; }
  // It was read as far as it is needed. Version 0: it is absent.
  void is_read(Entry& entry) noexcept;
  // In the order in which they were named first.
  [[nodiscard]] std::deque<Entry>& entries() noexcept { return entries_; }
  [[nodiscard]] const std::deque<Entry>& entries() const noexcept { return entries_; }
  // Null: no command has named it.
  [[nodiscard]] const Entry* find(std::string_view key) const noexcept;
  // Whether the commands found it absent, since its time to live is over: it was read as if it were there.
  [[nodiscard]] bool is_over(const Entry& entry) const noexcept {
    return entry.expires_wall_ns != 0 && entry.expires_wall_ns <= now_ns_;
  }
  // The version on which the commit depends; 0: it has to be absent. REQUIRES: it is used.
  [[nodiscard]] uint64_t version_seen(const Entry& entry) const noexcept {
    return is_over(entry) ? 0 : entry.version;
  }
  // Likewise of what it has written: it is gone already. REQUIRES: kPut.
  [[nodiscard]] bool is_born_over(const Entry& entry) const noexcept {
    return entry.new_expires_wall_ns != 0 && entry.new_expires_wall_ns <= now_ns_;
  }

 private:
  [[nodiscard]] Entry& entry_of(std::string_view key);
  void need(Entry& entry, Depth depth) noexcept;
  // What a write takes the place of.
  void drop_made(Entry& entry) noexcept;

  std::deque<Entry> entries_;
  std::unordered_map<std::string_view, Entry*> places_;
  uint64_t now_ns_ = 0;
  size_t lacking_ = 0;
  size_t made_bytes_ = 0;
  bool is_too_large_ = false;  // A command of this pass would have made more than that at once.
  uint64_t work_ = 0;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace refract::doors::redis
