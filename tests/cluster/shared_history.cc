// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/shared_history.h"

#include <fmt/format.h>

#include <algorithm>

namespace refract::test {

uint64_t SharedHistory::begin_put(const std::string& id, size_t node, uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  const uint64_t number = births_.size() + 1;
  births_.emplace(number, Birth{.id = id, .node = node, .begun_ns = now_ns, .missed = {}});
  by_id_[id].insert(number);
  return number;
}

SharedHistory::Wrong SharedHistory::sealed(uint64_t number, uint64_t birth, uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  return seal(number, birth, now_ns);
}

// Also what a get has found is sealed.
SharedHistory::Wrong SharedHistory::seal(uint64_t number, uint64_t birth, uint64_t now_ns) {
  Birth& mine = births_.at(number);
  if (mine.birth != 0 && mine.birth != birth) {
    return fmt::format("{} #{} has two births, {:x} and {:x}", mine.id, number, mine.birth, birth);
  }
  mine.birth = birth;
  if (mine.sealed_ns != kNever) return std::nullopt;
  mine.sealed_ns = now_ns;
  for (const uint64_t other_number : by_id_.at(mine.id)) {
    const Birth& other = births_.at(other_number);
    if (other_number == number || may_be_lost(other)) continue;
    if (other.sealed_ns < mine.begun_ns && other.removal_begun_ns > now_ns) {
      return fmt::format("{} #{} was sealed although #{} has the id", mine.id, number, other_number);
    }
  }
  return std::nullopt;
}

SharedHistory::Wrong SharedHistory::refused(uint64_t number, uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  Birth& mine = births_.at(number);
  mine.gone_ns = now_ns;
  for (const uint64_t other_number : by_id_.at(mine.id)) {
    const Birth& other = births_.at(other_number);
    if (other_number == number) continue;
    const bool is_removed = other.missed.empty() && other.removed_ns < mine.begun_ns;
    if (other.begun_ns <= now_ns && other.gone_ns >= mine.begun_ns && !is_removed) return std::nullopt;
  }
  return fmt::format("{} #{} was refused although there is no other{}", mine.id, number, story_of(number));
}

// All that is known of its id, in milliseconds from the moment at which it was begun.
std::string SharedHistory::story_of(uint64_t number) const {
  const Birth& mine = births_.at(number);
  const auto when = [&mine](uint64_t at_ns) {
    if (at_ns == kNever) return std::string("never");
    return fmt::format("{:.1f}", (static_cast<double>(at_ns) - static_cast<double>(mine.begun_ns)) / 1e6);
  };
  std::string story;
  for (const uint64_t other_number : by_id_.at(mine.id)) {
    const Birth& one = births_.at(other_number);
    story += fmt::format(
        "\n  #{} ({:x}) by node {}: begun {}, sealed {}, refused {}, {} removals, {} to {}, {} missed",
        other_number, one.birth, one.node, when(one.begun_ns), when(one.sealed_ns), when(one.gone_ns),
        one.removals, when(one.removal_begun_ns), when(one.removed_ns), one.missed.size());
  }
  return story;
}

void SharedHistory::not_made(uint64_t number, uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  births_.at(number).gone_ns = now_ns;
}

std::optional<SharedHistory::Target> SharedHistory::begin_removal(const std::string& id, uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  std::optional<Target> target;
  for (const uint64_t number : by_id_[id]) {
    const Birth& one = births_.at(number);
    if (one.sealed_ns != kNever && one.removed_ns == kNever) target = Target{number, one.birth};
  }
  if (!target) return target;
  Birth& one = births_.at(target->number);
  one.removal_begun_ns = std::min(one.removal_begun_ns, now_ns);
  ++one.removals;
  return target;
}

void SharedHistory::removed(uint64_t number, const std::set<size_t>& missed, uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  Birth& one = births_.at(number);
  one.removed_ns = std::min(one.removed_ns, now_ns);
  one.missed.insert(missed.begin(), missed.end());
}

SharedHistory::Wrong SharedHistory::not_there_to_remove(uint64_t number) {
  const std::scoped_lock lock(mutex_);
  const Birth& one = births_.at(number);
  if (one.removals > 1 || may_be_lost(one)) return std::nullopt;
  return fmt::format("{} #{} was not there to be removed", one.id, number);
}

SharedHistory::Wrong SharedHistory::found(const std::string& id, const Target& body, size_t node,
                                          uint64_t begun_ns, uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  const auto at = births_.find(body.number);
  if (at == births_.end()) return fmt::format("{} #{} was found, and never made", id, body.number);
  const Birth& one = at->second;
  if (one.id != id) return fmt::format("{} #{} was found as {}", one.id, body.number, id);
  if (one.gone_ns < begun_ns) {
    return fmt::format("{} #{} was found, and its put was told that nothing was made", id, body.number);
  }
  if (one.removed_ns < begun_ns && !one.missed.contains(node)) {
    return fmt::format("{} #{} was found on node {} {} ms after it was removed", id, body.number, node,
                       (begun_ns - one.removed_ns) / 1'000'000);
  }
  return seal(body.number, body.birth, now_ns);
}

bool SharedHistory::is_removed(uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto at = births_.find(number);
  return at != births_.end() && at->second.removed_ns != kNever;
}

SharedHistory::Wrong SharedHistory::missing(const std::string& id, uint64_t begun_ns,
                                            uint64_t ended_ns) const {
  const std::scoped_lock lock(mutex_);
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return std::nullopt;
  for (const uint64_t number : at->second) {
    const Birth& one = births_.at(number);
    if (may_be_lost(one)) continue;
    if (one.sealed_ns < begun_ns && one.removal_begun_ns > ended_ns) {
      return fmt::format("{} #{} is not found, {} ms after it was sealed by node {}", id, number,
                         (begun_ns - one.sealed_ns) / 1'000'000, one.node);
    }
  }
  return std::nullopt;
}

void SharedHistory::lose(size_t node) {
  const std::scoped_lock lock(mutex_);
  lost_.insert(node);
}

}  // namespace refract::test
