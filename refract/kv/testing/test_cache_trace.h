// SPDX-License-Identifier: Apache-2.0
// How good an eviction is: traces of keys, caches that know everything and evict by the book, and our store
// as a cache that is read directly, with the table, heap, reader and page of samples of a real node.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/testing/test_space.h"
#include "refract/memory/uses.h"

namespace refract::kv::test {

// Keys by their popularity; every so often a scan over keys that are not asked for again.
struct TraceOptions {
  uint64_t keys = 0;
  double exponent = 0.99;
  uint64_t length = 0;
  uint64_t scan_every = 0;  // 0: there are no scans.
  uint64_t scan_keys = 0;
  uint64_t seed = 1;
};

inline std::vector<uint64_t> zipf_trace(const TraceOptions& options) {
  std::vector<double> below(options.keys);
  double sum = 0;
  for (uint64_t rank = 0; rank < options.keys; ++rank) {
    below[rank] = sum += std::pow(static_cast<double>(rank + 1), -options.exponent);
  }
  Prng prng(options.seed);
  std::vector<uint64_t> trace;
  trace.reserve(options.length);
  uint64_t scanned = options.keys;
  while (trace.size() < options.length) {
    if (options.scan_every != 0 && trace.size() % options.scan_every == 0) {
      for (uint64_t i = 0; i < options.scan_keys; ++i) trace.push_back(scanned++);
    }
    const double point = static_cast<double>(prng.next() >> 11) * 0x1p-53 * sum;
    const auto rank = std::ranges::lower_bound(below, point) - below.begin();
    trace.push_back(std::min(static_cast<uint64_t>(rank), options.keys - 1));
  }
  return trace;
}

class TrueLru {
 public:
  explicit TrueLru(uint64_t entries) : entries_(entries) {}
  // Whether it was there; it is from now on.
  bool access(uint64_t key) {
    if (const auto found = places_.find(key); found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    if (places_.size() == entries_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(key);
    places_[key] = order_.begin();
    return false;
  }

 private:
  uint64_t entries_;
  std::list<uint64_t> order_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

// Counts uses while an entry is there; of those used equally often the one goes that was used longest ago.
class TrueLfu {
 public:
  explicit TrueLfu(uint64_t entries) : entries_(entries) {}
  bool access(uint64_t key) {
    ++now_;
    const auto found = uses_.find(key);
    const bool is_hit = found != uses_.end();
    Use use{.times = 1, .last = now_};
    if (is_hit) {
      use.times = found->second.times + 1;
      order_.erase({found->second.times, found->second.last, key});
    } else if (uses_.size() == entries_) {
      uses_.erase(std::get<2>(*order_.begin()));
      order_.erase(order_.begin());
    }
    uses_[key] = use;
    order_.insert({use.times, use.last, key});
    return is_hit;
  }

 private:
  struct Use {
    uint64_t times;
    uint64_t last;
  };
  uint64_t entries_;
  uint64_t now_ = 0;
  std::unordered_map<uint64_t, Use> uses_;
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> order_;
};

class StoreAsCache {
 public:
  struct Options {
    uint64_t chunks = 8;
    uint64_t value_bytes = 1'000;
    EvictionPolicy policy = EvictionPolicy::kLeastRecentlyUsed;
    bool has_samples = true;  // Else readers tell nothing.
  };

  explicit StoreAsCache(const Options& options)
      : space_({.chunks = options.chunks, .chunks_max = options.chunks}),
        samples_(page_),
        eviction_({.table = space_.table(),
                   .heap = space_.heap(),
                   .growth = growth_,
                   .policy = options.policy,
                   .samples = &samples_}),
        memory_(space_.base(), space_.bytes(), nullptr),
        reader_(memory_, space_.clock()),
        writer_(&page_),
        value_(options.value_bytes, 'v'),
        room_(options.value_bytes) {
    sampler_.start(options.has_samples ? reads_per_use(options.policy) : 0, 0);
  }

  // As a program with a cache does: it asks, and puts what was not there.
  bool access(uint64_t index) {
    std::string key = std::to_string(index);
    key.insert(0, kKeyBytes - key.size(), '0');
    const uint64_t hash = reader_.hash(bytes_of(key));
    if (++reads_ >= sampler_.due()) {
      writer_.write(hash);
      sampler_.taken(reads_);
    }
    const auto into = [this](uint64_t bytes) { return bytes <= room_.size() ? room_.data() : nullptr; };
    if (reader_.get(bytes_of(key), hash, into).code == Code::kOk) return true;
    put(key);
    entries_ = std::max(entries_, space_.table().stats().entries);
    return false;
  }

  // The most that were there at once.
  [[nodiscard]] uint64_t entries() const noexcept { return entries_; }
  [[nodiscard]] uint64_t refused() const noexcept { return refused_; }
  [[nodiscard]] Space& space() noexcept { return space_; }
  [[nodiscard]] const Eviction& eviction() const noexcept { return eviction_; }

 private:
  static constexpr size_t kKeyBytes = 12;

  // What has to wait for room waits, as it does at a node.
  void put(const std::string& key) {
    while (!space_.table().put(bytes_of(key), bytes_of(value_), {})) {
      if (!eviction_.is_under_way()) {
        ++refused_;
        return;
      }
      eviction_.step(Eviction::kStepEntries);
    }
  }

  class Samples final : public UseSource {
   public:
    explicit Samples(const UseTable& page) noexcept : page_(page) {}
    void collect_uses(std::vector<uint64_t>& hashes) override { reader_.collect(page_, hashes); }

   private:
    const UseTable& page_;
    UseReader reader_;
  };

  Space space_;
  NoGrowth growth_;
  UseTable page_ = {};
  Samples samples_;
  Eviction eviction_;
  MappedMemory memory_;
  DirectReader<MappedMemory> reader_;
  UseWriter writer_;
  UseSampler sampler_;
  std::string value_;
  std::vector<std::byte> room_;
  uint64_t reads_ = 0;
  uint64_t entries_ = 0;
  uint64_t refused_ = 0;
};

// The share of hits in the second half of the trace; the first fills the cache.
template <typename Cache>
[[nodiscard]] double hit_rate(Cache& cache, const std::vector<uint64_t>& trace) {
  uint64_t hits = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const bool is_hit = cache.access(trace[i]);
    if (i >= trace.size() / 2 && is_hit) ++hits;
  }
  return static_cast<double>(hits) / static_cast<double>(trace.size() - trace.size() / 2);
}

// How much of the hits of the policy by the book our store has, with as many entries.
struct HitRates {
  double ours = 0;
  double by_the_book = 0;
  uint64_t entries = 0;
  uint64_t refused = 0;  // Puts.
  [[nodiscard]] double ratio() const noexcept { return ours / by_the_book; }
};
[[nodiscard]] inline HitRates compare_with_the_book(const StoreAsCache::Options& options,
                                                    const std::vector<uint64_t>& trace) {
  StoreAsCache store(options);
  HitRates rates{.ours = hit_rate(store, trace)};
  rates.entries = store.entries();
  rates.refused = store.refused();
  if (options.policy == EvictionPolicy::kLeastRecentlyUsed) {
    TrueLru lru(rates.entries);
    rates.by_the_book = hit_rate(lru, trace);
  } else {
    TrueLfu lfu(rates.entries);
    rates.by_the_book = hit_rate(lfu, trace);
  }
  return rates;
}

}  // namespace refract::kv::test
