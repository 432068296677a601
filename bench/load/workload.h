// SPDX-License-Identifier: Apache-2.0
// What is asked of a store, in which order and when, and what came of it. The same for every store, so that
// two of them can be compared.
//
// Without a rate the loop is closed: an operation begins when the driver has room for it, and its latency
// counts from there; that hides how long others would have waited behind a slow answer. With a rate the loop
// is open: operations are due at moments of their own (gaps exponentially distributed, as of many users who
// do not know of each other), and latency counts from the moment when an operation was due, whether or not
// the driver could begin it then. All that fell due within the run is executed, also past saturation, for up
// to three times the run's length; what is left then counts as unserved, with the time that it has waited.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bench/load/inserted_keys.h"
#include "bench/load/zipf.h"
#include "bench/measure/counters.h"
#include "bench/measure/measure.h"

#include "refract/base/histogram.h"
#include "refract/base/prng.h"
#include "refract/base/result.h"

namespace refract::bench {

inline constexpr uint64_t kScanEntriesMax = 100;  // As YCSB has it.
inline constexpr size_t kKeyBytesMin = 8;
inline constexpr size_t kKeyBytesMax = 1024;

// The bytes of entry `index`, for keys and values of any length.
class Contents {
 public:
  Contents(size_t key_bytes, size_t value_bytes) noexcept
      : key_bytes_(key_bytes), value_bytes_(value_bytes) {}
  [[nodiscard]] size_t key_bytes() const noexcept { return key_bytes_; }
  [[nodiscard]] size_t value_bytes() const noexcept { return value_bytes_; }

  // REQUIRES: room for key_bytes().
  void write_key(uint64_t index, std::byte* key) const noexcept;
  // Fills all of a value's bytes; make_value() only those that tell one entry's value from another's.
  void prepare_value(std::byte* value) const noexcept;
  void make_value(uint64_t index, std::byte* value) const noexcept;
  // Whether they are that entry's, and spoils them, so that the next answer has to bring its own.
  [[nodiscard]] bool take_value(uint64_t index, std::byte* value) const noexcept;
  // The entry of a key that write_key wrote. REQUIRES: key_bytes() of them.
  [[nodiscard]] uint64_t index_of(const std::byte* key) const noexcept;

 private:
  static constexpr size_t kMarkBytes = 8;
  // The two ends of a value, which bear its mark and do not overlap.
  [[nodiscard]] size_t last_bytes() const noexcept { return std::min(value_bytes_, kMarkBytes); }
  [[nodiscard]] size_t first_bytes() const noexcept {
    return std::min(value_bytes_ - last_bytes(), kMarkBytes);
  }
  [[nodiscard]] bool has_whole_ends() const noexcept { return value_bytes_ >= 2 * kMarkBytes; }

  size_t key_bytes_;
  size_t value_bytes_;
};

struct WorkloadOptions {
  uint64_t keys = 1'000'000;
  size_t key_bytes = 16;
  size_t value_bytes = 64;
  double get_share = 1;
  // What is no get is a put; or, where there are any of these shares, one of them, in proportion.
  double insert_share = 0;
  double scan_share = 0;
  double replace_share = 0;
  bool reads_latest = false;  // The skew is over how new a key is.
  // Where its inserts go. REQUIRES: not null if there are any, or if it reads the latest.
  InsertedKeys* inserted = nullptr;
  double skew = 0;        // Of a Zipf law, below 1; 0: uniform.
  bool in_order = false;  // Each key once, from the first one on, instead of drawn.
  double seconds = 1;
  uint64_t operations = 0;  // Stop after so many; 0: only the time ends the run.
  double rate = 0;          // Operations due a second; 0: as fast as the driver can.
  uint64_t seed = 1;
};

enum class Act : uint8_t {
  kGet,
  kPut,
  kInsert,   // A put of a key that is new.
  kScan,     // `number` entries from a place that the index decides.
  kReplace,  // Reads a value, then puts one, where the store can only if no other client did so in between.
};

struct Operation {
  uint64_t index = 0;
  uint64_t from_ticks = 0;  // When it was due, or began.
  Act act = Act::kGet;
  uint64_t number = 0;  // Entries of a scan; which insert of its client.
  // For the driver to count.
  uint32_t retries = 0;  // Of a kReplace, because another client wrote in between.
  uint32_t entries = 0;  // That a scan brought.

  [[nodiscard]] bool is_get() const noexcept { return act == Act::kGet; }
  [[nodiscard]] bool is_put() const noexcept { return act == Act::kPut || act == Act::kInsert; }
};

struct WorkloadResult {
  uint64_t operations = 0;  // Answered.
  uint64_t missing = 0;     // Gets of keys that the store does not hold.
  uint64_t wrong = 0;       // Gets that brought other bytes than were put.
  uint64_t overloaded = 0;  // Refused as too much, or not answered in time.
  uint64_t unserved = 0;    // Due, but never begun.
  uint64_t requests = 0;    // That the client sent for them.
  uint64_t inserted = 0;    // Keys that were new.
  uint64_t repeated = 0;    // Inserts of keys that were there, since the room for new ones was used.
  uint64_t scanned = 0;     // Entries that scans brought.
  uint64_t retried = 0;     // Reads and writes of replaces that were tried again.
  double seconds = 0;       // From the first to the last.
  Counts counts;            // Of the clients' threads.
  Histogram latency_ns;

  [[nodiscard]] double per_second() const noexcept {
    return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
  }
  // Of another client that ran at the same time.
  void add_beside(const WorkloadResult& other) noexcept;
  // Of a run before or after.
  void add_after(const WorkloadResult& other) noexcept;
};

class Workload {
 public:
  // Takes time in proportion to the keys if there is a skew.
  Workload(const WorkloadOptions& options, const Timer& timer);

  [[nodiscard]] const Contents& contents() const noexcept { return contents_; }
  [[nodiscard]] bool has_rate() const noexcept { return options_.rate > 0; }

  // Begins the run; called again, it takes the next keys of the sequence.
  void begin() noexcept;
  // The next operation. Under a rate it may be due only later: see ns_until. False: the run has ended.
  [[nodiscard]] bool next(Operation& operation) noexcept;
  // 0: it is due.
  [[nodiscard]] uint64_t ns_until(const Operation& operation) const noexcept;
  // kOk, kNotFound, and kOverloaded and kDeadlineExceeded are counted; other codes are for the driver to
  // report. kCorrupt stands for a wrong value.
  void finished(const Operation& operation, Code code) noexcept;
  // Ends the run and says what came of it.
  [[nodiscard]] const WorkloadResult& end() noexcept;

  [[nodiscard]] static bool is_counted(Code code) noexcept;

 private:
  [[nodiscard]] Act draw_act() noexcept;
  void count_more(const Operation& operation) noexcept;
  [[nodiscard]] uint64_t ticks_of(double ns) const noexcept {
    return static_cast<uint64_t>(ns / timer_.ns_per_tick);
  }

  WorkloadOptions options_;
  Timer timer_;
  Contents contents_;
  KeyPicker picker_;
  Prng chance_;
  WorkloadResult result_;
  uint64_t given_ = 0;
  uint64_t start_ticks_ = 0;
  uint64_t end_ticks_ = 0;
  uint64_t patience_ticks_ = 0;  // When what is due but not begun is given up.
  uint64_t last_ticks_ = 0;
  double due_ns_ = 0;  // Of the next operation, from the start.
};

}  // namespace refract::bench
