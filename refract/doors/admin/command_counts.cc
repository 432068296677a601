// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/command_counts.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {
namespace {

// All rows, each in front of those of its subcommands.
const std::vector<const Row*>& all_rows() {
  static const auto kAll = [] {
    std::vector<const Row*> all;
    all.reserve(2 * rows().size());
    for (const Row& row : rows()) {
      all.push_back(&row);
      if (row.subcommands == nullptr) continue;
      for (const Row& one : row.subcommands()) all.push_back(&one);
    }
    return all;
  }();
  return kAll;
}

size_t place_of(const Row& row) {
  static const auto kPlaces = [] {
    std::unordered_map<const Row*, size_t> places;
    for (const Row* const one : all_rows()) places.emplace(one, places.size());
    return places;
  }();
  return kPlaces.find(&row)->second;
}

}  // namespace

CommandCounts::CommandCounts(size_t threads) : by_thread_(threads), before_(all_rows().size()) {
  for (OfThread& one : by_thread_) one.tallies = std::vector<CommandTallies>(all_rows().size());
}

CommandTallies& CommandCounts::of(size_t thread, const Row& row) noexcept {
  return by_thread_[thread].tallies[place_of(row)];
}

std::vector<CommandSums> CommandCounts::since_start() const {
  std::vector<CommandSums> sums(all_rows().size());
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i].row = all_rows()[i];
    for (const OfThread& one : by_thread_) {
      const CommandTallies& tallies = one.tallies[i];
      sums[i].calls += tallies.calls.load();
      sums[i].ns += tallies.ns.load();
      sums[i].failed += tallies.failed.load();
      sums[i].rejected += tallies.rejected.load();
    }
  }
  return sums;
}

std::vector<CommandSums> CommandCounts::sums() const {
  std::vector<CommandSums> sums = since_start();
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < sums.size(); ++i) {
    // A reset may have come in between.
    const auto take = [](uint64_t& sum, uint64_t before) { sum -= std::min(sum, before); };
    take(sums[i].calls, before_[i].calls);
    take(sums[i].ns, before_[i].ns);
    take(sums[i].failed, before_[i].failed);
    take(sums[i].rejected, before_[i].rejected);
  }
  std::erase_if(sums, [](const CommandSums& one) { return one.calls == 0 && one.rejected == 0; });
  return sums;
}

void CommandCounts::reset() {
  std::vector<CommandSums> now = since_start();
  const std::lock_guard lock(mutex_);
  before_ = std::move(now);
}

}  // namespace refract::doors::redis
