// SPDX-License-Identifier: Apache-2.0
// What clients asked of a transactional store and what they were told, each transaction with the moments of
// its call and its return: the evidence that the checker judges. A plain put, get or erase is a transaction
// of one operation.
//
// The store that is meant gives each write of a key a version, a number that grows for each key and is never
// used twice. An absent key has none. All keys are absent at first: what was there before the history began
// is written by a transaction of a client of its own.
//
// Threads: one for each Recorder. Several threads or processes record apart, and merge() makes one history
// of theirs; their times must come from one clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refract::serialisability {

inline constexpr uint64_t kNever = UINT64_MAX;

// A number for what was put or found. Nothing: not known. Versions apart, only different numbers tell writes
// apart, so a put should have one of its own.
using Value = std::optional<int64_t>;

// An add is executed by the owner: it adds to what is there, or puts the amount where nothing is.
enum class Kind : uint8_t { kGet, kPut, kErase, kAdd };

// What the store said of the entry as an operation found it.
enum class Found : uint8_t { kNotTold, kAbsent, kPresent };

// What an operation asks of the entry before it is done.
enum class Want : uint8_t { kAnything, kAbsent, kPresent, kVersion, kValue };

// Whether the entry was as wanted. Not told: it was, if the transaction is committed. An operation whose
// condition was unmet has changed nothing.
enum class Condition : uint8_t { kNotTold, kMet, kUnmet };

struct Operation {
  Kind kind = Kind::kGet;
  uint32_t key = 0;
  Want want = Want::kAnything;
  Condition condition = Condition::kNotTold;
  uint64_t want_version = 0;
  int64_t want_value = 0;
  // Of the entry as it was found: what a get returns, what an erase removed, what is known of a condition.
  Found found = Found::kNotTold;
  uint64_t found_version = 0;  // 0: not told.
  Value found_value = {};
  // Of what a put or an add leaves. The version of a transaction's last write of a key is the one that
  // counts.
  uint64_t version = 0;  // 0: not told.
  Value value = {};      // What was put; the sum that an add was told.
  int64_t amount = 0;    // Of an add.
};

enum class Outcome : uint8_t {
  kCommitted,
  kUnknown,  // It may take effect at any later moment, or never. It has, if its effect is seen.
  kRefused,  // It has no effect and never will.
};

struct Transaction {
  uint32_t client = 0;
  Outcome outcome = Outcome::kUnknown;
  // Of a refused one: the store says that what it found stood there together at one moment of the call. What
  // other refused transactions found is not judged.
  bool is_validated = false;
  uint64_t began_ns = 0;
  uint64_t ended_ns = kNever;
  std::vector<Operation> operations;
};

struct History {
  std::vector<std::string> clients;
  std::vector<std::string> keys;
  std::vector<Transaction> transactions;
};

[[nodiscard]] std::string name_of(const std::vector<std::string>& names, uint32_t number);
// "put y=3 if version 7 -> version 9".
[[nodiscard]] std::string to_text(const History& history, const Operation& operation);
// "{get x -> absent; put y=3} committed".
[[nodiscard]] std::string to_text(const History& history, const Transaction& transaction);

// Writes a history down while it happens, in one thread.
class Recorder {
 public:
  [[nodiscard]] uint32_t client(std::string_view name);
  [[nodiscard]] uint32_t key(std::string_view name);

  // The call. A transaction that never ends is one whose outcome is unknown.
  [[nodiscard]] size_t begin(uint32_t client, uint64_t now_ns);
  // To be called when an answer comes, in the order of the program.
  void add(size_t transaction, const Operation& operation);
  struct End {
    Outcome outcome = Outcome::kUnknown;
    bool is_validated = false;
    uint64_t now_ns = 0;
  };
  void end(size_t transaction, const End& end);

  // For what is told later, as the versions of writes at the commit.
  [[nodiscard]] Transaction& transaction(size_t index) { return history_.transactions[index]; }
  [[nodiscard]] const History& history() const noexcept { return history_; }

 private:
  History history_;
  std::map<std::string, uint32_t, std::less<>> clients_;
  std::map<std::string, uint32_t, std::less<>> keys_;
};

// One history of several. Clients and keys of the same name are the same.
[[nodiscard]] History merge(std::span<const History> histories);

}  // namespace refract::serialisability
