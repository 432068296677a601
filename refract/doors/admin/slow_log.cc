// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/slow_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refract::doors::redis {
namespace {

std::string shortened(std::string_view word) {
  if (word.size() <= SlowLog::kWordBytesMax) return std::string(word);
  return fmt::format("{}... ({} more bytes)", word.substr(0, SlowLog::kWordBytesMax),
                     word.size() - SlowLog::kWordBytesMax);
}

}  // namespace

void SlowLog::add(std::span<const std::string_view> words, SlowCommand command) {
  const size_t shown = words.size() > kWordsMax ? kWordsMax - 1 : words.size();
  command.words.reserve(shown + 1);
  for (const std::string_view word : words.first(shown)) command.words.push_back(shortened(word));
  if (shown < words.size()) {
    command.words.push_back(fmt::format("... ({} more arguments)", words.size() - shown));
  }
  const std::lock_guard lock(mutex_);
  command.number = next_number_++;
  commands_.push_front(std::move(command));
  if (commands_.size() > length_max()) commands_.resize(length_max());
}

void SlowLog::set_length_max(size_t length) {
  const std::lock_guard lock(mutex_);
  length_max_.store(length, std::memory_order_relaxed);
  if (commands_.size() > length) commands_.resize(length);
}

std::vector<SlowCommand> SlowLog::last(size_t count_max) const {
  const std::lock_guard lock(mutex_);
  const auto count = static_cast<ptrdiff_t>(std::min(count_max, commands_.size()));
  return {commands_.begin(), commands_.begin() + count};
}

size_t SlowLog::length() const {
  const std::lock_guard lock(mutex_);
  return commands_.size();
}

void SlowLog::clear() {
  const std::lock_guard lock(mutex_);
  commands_.clear();
}

}  // namespace refract::doors::redis
