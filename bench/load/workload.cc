// SPDX-License-Identifier: Apache-2.0
#include "bench/load/workload.h"

#include <cmath>
#include <cstring>

#include "bench/load/entry.h"

namespace refract::bench {
namespace {

constexpr double kPatience = 3;  // Times the length of the run.

// Never 0, so that a spoiled value is that of no key.
uint64_t mark_of(uint64_t index) noexcept {
  return mix(index) | 1;
}

uint64_t word_at(const std::byte* at) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

void set_word(std::byte* at, uint64_t word) noexcept {
  std::memcpy(at, &word, sizeof(word));
}

}  // namespace

void Contents::write_key(uint64_t index, std::byte* key) const noexcept {
  // The first eight bytes alone tell all indexes apart: an odd factor loses nothing.
  const Key start = Key::of(index);
  if (key_bytes_ == sizeof(start)) {
    std::memcpy(key, &start, sizeof(start));
    return;
  }
  const size_t copied = std::min(key_bytes_, sizeof(start));
  std::memcpy(key, &start, copied);
  std::memset(key + copied, 'k', key_bytes_ - copied);
}

uint64_t Contents::index_of(const std::byte* key) const noexcept {
  // Newton: each step doubles the number of right bits of the factor's inverse, of which 3 are right at once.
  const uint64_t factor = Key::of(1).words[0];
  uint64_t inverse = factor;
  for (int step = 0; step < 5; ++step) inverse *= 2 - factor * inverse;
  uint64_t product = 0;
  std::memcpy(&product, key, sizeof(product));
  return product * inverse;
}

void Contents::prepare_value(std::byte* value) const noexcept {
  std::memset(value, 'v', value_bytes_);
}

void Contents::make_value(uint64_t index, std::byte* value) const noexcept {
  const uint64_t mark = mark_of(index);
  if (has_whole_ends()) {
    set_word(value, mark);
    return set_word(value + value_bytes_ - kMarkBytes, mark);
  }
  std::memcpy(value, &mark, first_bytes());
  std::memcpy(value + value_bytes_ - last_bytes(), &mark, last_bytes());
}

bool Contents::take_value(uint64_t index, std::byte* value) const noexcept {
  const uint64_t mark = mark_of(index);
  std::byte* const last = value + value_bytes_ - last_bytes();
  if (has_whole_ends()) {
    const bool both_right = word_at(value) == mark && word_at(last) == mark;
    set_word(value, 0);
    set_word(last, 0);
    return both_right;
  }
  const bool right =
      std::memcmp(value, &mark, first_bytes()) == 0 && std::memcmp(last, &mark, last_bytes()) == 0;
  std::memset(value, 0, first_bytes());
  std::memset(last, 0, last_bytes());
  return right;
}

void WorkloadResult::add_beside(const WorkloadResult& other) noexcept {
  const double longest = std::max(seconds, other.seconds);
  add_after(other);
  seconds = longest;
}

void WorkloadResult::add_after(const WorkloadResult& other) noexcept {
  operations += other.operations;
  missing += other.missing;
  wrong += other.wrong;
  overloaded += other.overloaded;
  unserved += other.unserved;
  requests += other.requests;
  inserted += other.inserted;
  repeated += other.repeated;
  scanned += other.scanned;
  retried += other.retried;
  seconds += other.seconds;
  counts += other.counts;
  latency_ns.merge(other.latency_ns);
}

Workload::Workload(const WorkloadOptions& options, const Timer& timer)
    : options_(options),
      timer_(timer),
      contents_(options.key_bytes, options.value_bytes),
      picker_(options.keys, options.skew, options.seed),
      chance_(options.seed + 1) {}

void Workload::begin() noexcept {
  result_ = {};
  given_ = 0;
  due_ns_ = 0;
  start_ticks_ = last_ticks_ = __rdtsc();
  end_ticks_ = start_ticks_ + ticks_of(options_.seconds * 1e9);
  patience_ticks_ = start_ticks_ + ticks_of(options_.seconds * kPatience * 1e9);
}

bool Workload::next(Operation& operation) noexcept {
  if (options_.operations != 0 && given_ >= options_.operations) return false;
  if (options_.in_order && given_ >= options_.keys) return false;
  const uint64_t now = __rdtsc();
  uint64_t from = now;
  if (has_rate()) {
    from = start_ticks_ + ticks_of(due_ns_);
    if (from >= end_ticks_ || now >= patience_ticks_) return false;
    const double uniform = static_cast<double>(chance_.next() >> 11) * 0x1.0p-53;
    due_ns_ -= 1e9 / options_.rate * std::log1p(-uniform);
  } else if (now >= end_ticks_) {
    return false;
  }
  const uint64_t rank = options_.in_order ? given_ : picker_.next_rank();
  ++given_;
  operation = {
      .index = options_.in_order ? rank : picker_.key_at(rank), .from_ticks = from, .act = draw_act()};
  switch (operation.act) {
    case Act::kGet:
      if (options_.reads_latest) operation.index = options_.inserted->latest(rank);
      break;
    case Act::kInsert:
      operation.number = options_.inserted->begin();
      operation.index = options_.inserted->index_of(operation.number);
      break;
    case Act::kScan:
      operation.index = chance_.next();
      operation.number = 1 + chance_.below(kScanEntriesMax);
      break;
    case Act::kPut:
    case Act::kReplace:
      break;
  }
  return true;
}

Act Workload::draw_act() noexcept {
  const double gets = options_.get_share;
  if (gets >= 1 || (gets > 0 && chance_.chance(gets))) return Act::kGet;
  const double others = options_.insert_share + options_.scan_share + options_.replace_share;
  if (others <= 0) return Act::kPut;
  const double place = static_cast<double>(chance_.next() >> 11) * 0x1.0p-53 * others;
  if (place < options_.insert_share) return Act::kInsert;
  return options_.replace_share > 0 && place >= options_.insert_share + options_.scan_share ? Act::kReplace
                                                                                            : Act::kScan;
}

uint64_t Workload::ns_until(const Operation& operation) const noexcept {
  const uint64_t now = __rdtsc();
  if (operation.from_ticks <= now) return 0;
  return static_cast<uint64_t>(static_cast<double>(operation.from_ticks - now) * timer_.ns_per_tick);
}

bool Workload::is_counted(Code code) noexcept {
  return code == Code::kOk || code == Code::kNotFound || code == Code::kCorrupt ||
         code == Code::kOverloaded || code == Code::kDeadlineExceeded;
}

void Workload::finished(const Operation& operation, Code code) noexcept {
  last_ticks_ = __rdtsc();
  // Between cores the counter may step back by a few ticks.
  const uint64_t ticks = last_ticks_ > operation.from_ticks ? last_ticks_ - operation.from_ticks : 0;
  result_.latency_ns.record(static_cast<uint64_t>(static_cast<double>(ticks) * timer_.ns_per_tick));
  ++result_.operations;
  if (!operation.is_get()) count_more(operation);
  if (code == Code::kOk) return;
  result_.missing += uint64_t{code == Code::kNotFound};
  result_.wrong += uint64_t{code == Code::kCorrupt};
  result_.overloaded += uint64_t{code == Code::kOverloaded || code == Code::kDeadlineExceeded};
}

void Workload::count_more(const Operation& operation) noexcept {
  result_.retried += operation.retries;
  result_.scanned += operation.entries;
  if (operation.act != Act::kInsert) return;
  options_.inserted->ended(operation.number);
  const bool is_repeated = options_.inserted->is_repeated(operation.number);
  result_.inserted += uint64_t{!is_repeated};
  result_.repeated += uint64_t{is_repeated};
}

const WorkloadResult& Workload::end() noexcept {
  result_.seconds = static_cast<double>(last_ticks_ - start_ticks_) * timer_.ns_per_tick * 1e-9;
  if (!has_rate() || options_.operations != 0) return result_;
  const double run_ns = options_.seconds * 1e9;
  const double waited_until_ns = static_cast<double>(__rdtsc() - start_ticks_) * timer_.ns_per_tick;
  while (due_ns_ < run_ns && due_ns_ < waited_until_ns) {
    ++result_.unserved;
    result_.latency_ns.record(static_cast<uint64_t>(waited_until_ns - due_ns_));
    due_ns_ += 1e9 / options_.rate;
  }
  return result_;
}

}  // namespace refract::bench
