// SPDX-License-Identifier: Apache-2.0
// What reads of a key may return, given what was written when, by which writer.
//
// Each key has one writer, which writes it one operation after the other, each with a number. So the right
// answers of a read are those of the last operation that was acknowledged before the read began, or of any
// that began before it ended; and no read may return less than one that had ended before it began. After an
// operation whose outcome is unknown its key is left alone: it may take effect at any time, or never.
//
// Times are the world's true ones; wall clocks are off by at most kWallError_ns, so that an entry with a time
// to live must be there until some moment and gone from a later one, and in between it may be either.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace refract::campaign {

// Of any host's wall clock against the true time.
inline constexpr uint64_t kWallError_ns = 100'000;

// Operation `number` of a key; a value tells its key, number and length, so that a torn one convicts itself.
// A very short one has room for the beginning only.
[[nodiscard]] std::string sealed_value(const std::string& key, uint64_t number, size_t bytes);

// What a read said. Without `value` it said that the key is there, and with how many bytes.
struct Answer {
  bool found = false;
  uint64_t version = 0;
  uint64_t value_bytes = 0;
  const std::string* value = nullptr;
};

class Model {
 public:
  struct Options {
    bool evicts = false;  // An entry may be gone at any time; once it was not found it does not come back.
  };
  Model() noexcept = default;
  explicit Model(const Options& options) noexcept : options_(options) {}

  enum class Outcome : uint8_t { kDone, kNothing, kUnknown };
  using Wrong = std::optional<std::string>;  // A sentence, or nothing where all is right.

  // The writer begins its next operation and gets its number. REQUIRES: may_write(key).
  struct Put {
    size_t bytes = 0;
    uint64_t ttl_ns = 0;
  };
  [[nodiscard]] uint64_t begin_put(const std::string& key, const Put& put, uint64_t now_ns);
  [[nodiscard]] uint64_t begin_erase(const std::string& key);
  // `version`: of a put that is done.
  struct End {
    Outcome outcome = Outcome::kDone;
    uint64_t version = 0;
    uint64_t now_ns = 0;
  };
  [[nodiscard]] Wrong end(const std::string& key, uint64_t number, const End& end);
  [[nodiscard]] bool may_write(const std::string& key) const;
  // The operations, each begun and not ended, take effect at one moment or not at all: a read that meets one
  // of them has met them all.
  struct Part {
    std::string key;
    uint64_t number = 0;
  };
  void join(const std::vector<Part>& parts);

  // What the key's writer knows of it between two operations.
  struct State {
    bool is_there = false;  // For certain, between the two moments.
    bool is_absent = true;  // Likewise.
    uint64_t version = 0;   // Of the last put that was acknowledged.
  };
  [[nodiscard]] State state(const std::string& key, uint64_t from_ns, uint64_t until_ns) const;

  // A read: note the moment before it, judge after it.
  struct Moment {
    uint64_t at_ns = 0;
    uint64_t acknowledged = 0;
    uint64_t seen = 0;
    uint64_t gone = 0;
  };
  [[nodiscard]] Moment moment(const std::string& key, uint64_t now_ns) const;
  [[nodiscard]] Wrong judge(const std::string& key, const Moment& before, const Answer& answer,
                            uint64_t now_ns);
  // Whether the key was there at every moment from `before` until now, whatever its value.
  [[nodiscard]] bool was_there_throughout(const std::string& key, const Moment& before,
                                          uint64_t now_ns) const;

  // All that were ever written.
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  [[nodiscard]] uint64_t judged() const { return judged_; }
  // Of all acknowledged writes: the next one's must be greater.
  [[nodiscard]] uint64_t highest_version() const { return highest_version_; }

 private:
  struct Operation {
    std::optional<size_t> bytes;  // Nothing: an erase.
    bool happened = true;         // False once it is known that it did not.
    uint64_t version = 0;         // Of an acknowledged put.
    uint64_t ttl_ns = 0;
    uint64_t expires_from_ns = UINT64_MAX;   // Before that it is there;
    uint64_t expires_until_ns = UINT64_MAX;  // after that it is gone.
    size_t batch = SIZE_MAX;                 // In batches_, if it is part of one.
  };
  struct History {
    std::vector<Operation> operations = {{}};  // Number 0: the key was never written.
    uint64_t acknowledged = 0;                 // The last operation known to have happened.
    uint64_t seen = 0;                         // The latest that a finished read returned.
    uint64_t gone = 0;                         // Operations up to this one were found to be evicted.
    bool unknown = false;
    bool busy = false;
  };
  struct Reading {
    const std::string& key;
    uint64_t from_ns;
    uint64_t until_ns;
    const Answer& answer;
    uint64_t gone;
  };

  [[nodiscard]] uint64_t begin(const std::string& key, const Operation& operation);
  // A read has returned it: what was before it is over.
  void saw(const std::string& key, uint64_t number);
  [[nodiscard]] bool fits(const Operation& operation, uint64_t number, const Reading& reading) const;

  const Options options_{};
  std::map<std::string, History> histories_;
  std::vector<std::string> keys_;
  std::vector<std::vector<Part>> batches_;
  uint64_t judged_ = 0;
  uint64_t highest_version_ = 0;
};

}  // namespace refract::campaign
