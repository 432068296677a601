// SPDX-License-Identifier: Apache-2.0
// What clients asked of a key-value store and what they were told, each operation with the moments of its
// call and its return: the evidence that the checker judges.
//
// A store that loses everything on purpose (a node that was made again) has another set of keys from then on:
// the recorder gives them other names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace refract::linearizability {

inline constexpr uint64_t kNever = UINT64_MAX;

enum class Kind : uint8_t { kGet, kPut, kErase };

enum class Outcome : uint8_t {
  kDone,      // A put or erase took effect; a get found an entry.
  kAbsent,    // There was no entry: of a get, and of a write that wanted one.
  kExists,    // A put wanted none, but there was one.
  kMismatch,  // A write wanted another version, or another value.
  kUnmet,     // What a write wanted was not there: there was no entry, or another one.
  kUnknown,   // A write may take effect at any later moment, or never.
  kRefused,   // A write has no effect and never will; a get got no answer.
};

struct Operation {
  uint32_t client = 0;
  uint32_t key = 0;
  Kind kind = Kind::kGet;
  Outcome outcome = Outcome::kRefused;
  bool if_absent = false;
  uint64_t if_version = 0;  // 0: any.
  uint64_t if_value = 0;    // Of a write: the entry's value must be this one; 0: any. At most one condition.
  uint64_t value = 0;       // A number for what was put or got, which may come again; 0: not known.
  uint64_t version = 0;     // Of what was put, got or erased; 0: not known.
  // The order of calls and returns. Equal numbers are concurrent.
  uint64_t began = 0;
  uint64_t ended = kNever;
  // The true time, for pictures and for entries that expire.
  uint64_t began_ns = 0;
  uint64_t ended_ns = kNever;
  // Of a put with a time to live: the entry is there for certain before the first moment (unless it was
  // replaced or erased), and gone for certain from the second on, which lies behind its return.
  uint64_t expires_from_ns = kNever;
  uint64_t expires_until_ns = kNever;

  [[nodiscard]] bool is_write() const noexcept { return kind != Kind::kGet; }
  // Whether it changes the entry, or may.
  [[nodiscard]] bool changes() const noexcept {
    return is_write() && (outcome == Outcome::kDone || outcome == Outcome::kUnknown);
  }
  [[nodiscard]] bool may_expire() const noexcept { return expires_from_ns != kNever; }
};

struct History {
  std::vector<std::string> clients;
  std::vector<std::string> keys;
  std::vector<Operation> operations;
};

// "put #12 if_version 7 -> version 9".
[[nodiscard]] std::string to_text(const Operation& operation);

// Writes a history down while it happens, in one thread: every call and return gets the next number.
class Recorder {
 public:
  [[nodiscard]] uint32_t client(std::string_view name);
  [[nodiscard]] uint32_t key(std::string_view name);

  // The call. What it returns stays with the operation until end(); an operation that never ends is one whose
  // outcome is unknown.
  [[nodiscard]] size_t begin(Operation call, uint64_t now_ns);
  struct Return {
    Outcome outcome = Outcome::kRefused;
    uint64_t value = 0;  // Of a get.
    uint64_t version = 0;
    uint64_t now_ns = 0;
  };
  void end(size_t index, const Return& result);
  // For what is known to be an operation only afterwards, as each entry of a page: the next number.
  [[nodiscard]] uint64_t moment() noexcept { return ++clock_; }
  void add(const Operation& operation) { history_.operations.push_back(operation); }

  [[nodiscard]] Operation& operation(size_t index) { return history_.operations[index]; }
  [[nodiscard]] const History& history() const noexcept { return history_; }

 private:
  History history_;
  std::map<std::string, uint32_t, std::less<>> clients_;
  std::map<std::string, uint32_t, std::less<>> keys_;
  uint64_t clock_ = 0;
};

}  // namespace refract::linearizability
