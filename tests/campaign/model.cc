// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "refract/base/check.h"

namespace refract::campaign {

std::string sealed_value(const std::string& key, uint64_t number, size_t bytes) {
  // A long key is told by its beginning and its length.
  std::string value = fmt::format("{}:{}#{}#{}#", key.substr(0, 24), key.size(), number, bytes);
  const size_t head = value.size();
  value.resize(bytes);
  for (size_t i = head; i < bytes; ++i) value[i] = static_cast<char>('a' + (number * 7 + i) % 26);
  return value;
}

uint64_t Model::begin(const std::string& key, const Operation& operation) {
  if (!histories_.contains(key)) keys_.push_back(key);
  History& history = histories_[key];
  REFRACT_CHECK(!history.unknown && !history.busy);
  history.busy = true;
  history.operations.push_back(operation);
  return history.operations.size() - 1;
}

uint64_t Model::begin_put(const std::string& key, const Put& put, uint64_t now_ns) {
  Operation operation{.bytes = put.bytes, .ttl_ns = put.ttl_ns};
  if (put.ttl_ns != 0) operation.expires_from_ns = now_ns + put.ttl_ns - 2 * kWallError_ns;
  return begin(key, operation);
}

uint64_t Model::begin_erase(const std::string& key) {
  return begin(key, {});
}

Model::Wrong Model::end(const std::string& key, uint64_t number, const End& end) {
  History& history = histories_[key];
  Operation& operation = history.operations[number];
  history.busy = false;
  switch (end.outcome) {
    case Outcome::kDone:
      history.acknowledged = number;
      operation.version = end.version;
      highest_version_ = std::max(highest_version_, end.version);
      if (operation.ttl_ns != 0)
        operation.expires_until_ns = end.now_ns + operation.ttl_ns + 2 * kWallError_ns;
      break;
    case Outcome::kNothing:
      operation.happened = false;
      if (history.seen >= number) return fmt::format("operation {} of {} was seen, but refused", number, key);
      break;
    case Outcome::kUnknown:
      history.unknown = true;
      break;
  }
  return std::nullopt;
}

void Model::join(const std::vector<Part>& parts) {
  for (const Part& part : parts) histories_[part.key].operations[part.number].batch = batches_.size();
  batches_.push_back(parts);
}

void Model::saw(const std::string& key, uint64_t number) {
  History& history = histories_[key];
  const Operation& operation = history.operations[number];
  history.seen = std::max(history.seen, number);
  if (operation.batch == SIZE_MAX) return;
  for (const Part& part : batches_[operation.batch]) {
    uint64_t& seen = histories_[part.key].seen;
    seen = std::max(seen, part.number);
  }
}

bool Model::may_write(const std::string& key) const {
  const auto found = histories_.find(key);
  return found == histories_.end() || (!found->second.unknown && !found->second.busy);
}

Model::State Model::state(const std::string& key, uint64_t from_ns, uint64_t until_ns) const {
  const auto found = histories_.find(key);
  if (found == histories_.end()) return {};
  const Operation& last = found->second.operations[found->second.acknowledged];
  return {.is_there = last.bytes && until_ns < last.expires_from_ns && !options_.evicts,
          .is_absent = !last.bytes || from_ns >= last.expires_until_ns ||
                       (found->second.gone != 0 && found->second.gone == found->second.acknowledged),
          .version = last.version};
}

Model::Moment Model::moment(const std::string& key, uint64_t now_ns) const {
  const auto found = histories_.find(key);
  if (found == histories_.end()) return {.at_ns = now_ns};
  const History& history = found->second;
  return {.at_ns = now_ns, .acknowledged = history.acknowledged, .seen = history.seen, .gone = history.gone};
}

bool Model::fits(const Operation& operation, uint64_t number, const Reading& reading) const {
  const Answer& answer = reading.answer;
  if (!answer.found)
    return !operation.bytes || reading.until_ns >= operation.expires_from_ns || options_.evicts;
  if (number != 0 && number <= reading.gone) return false;
  if (!operation.bytes || reading.from_ns >= operation.expires_until_ns) return false;
  if (operation.version != 0 && operation.version != answer.version) return false;
  if (answer.value_bytes != *operation.bytes) return false;
  return answer.value == nullptr || *answer.value == sealed_value(reading.key, number, *operation.bytes);
}

Model::Wrong Model::judge(const std::string& key, const Moment& before, const Answer& answer,
                          uint64_t now_ns) {
  ++judged_;
  History& history = histories_[key];
  const uint64_t least = std::max(before.acknowledged, before.seen);
  const Reading reading{
      .key = key, .from_ns = before.at_ns, .until_ns = now_ns, .answer = answer, .gone = before.gone};
  for (uint64_t number = history.operations.size(); number-- > least;) {
    const Operation& operation = history.operations[number];
    if (!operation.happened || !fits(operation, number, reading)) continue;
    // Only what no other operation could have given proves that this one was reached.
    constexpr size_t kTelling = 64;
    const bool is_proof =
        operation.version != 0 || (answer.value != nullptr && answer.value_bytes >= kTelling);
    if (answer.found && is_proof) saw(key, number);
    // It had ended before the read began, and nothing else was written until the read ended. What may have
    // expired may still be there by another's clock.
    const bool is_last = number == before.acknowledged && number + 1 == history.operations.size();
    if (!answer.found && operation.bytes && is_last && now_ns < operation.expires_from_ns)
      history.gone = number;
    return std::nullopt;
  }
  const std::string value = !answer.found             ? "not found"
                            : answer.value == nullptr ? fmt::format("{} bytes", answer.value_bytes)
                                                      : fmt::format("{} bytes '{}'", answer.value_bytes,
                                                                    answer.value->substr(0, 60));
  return fmt::format("key {} read as {} of version {}, but operations {} to {} are what it can have been",
                     key.substr(0, 24), value, answer.version, least, history.operations.size() - 1);
}

bool Model::was_there_throughout(const std::string& key, const Moment& before, uint64_t now_ns) const {
  const auto found = histories_.find(key);
  if (found == histories_.end()) return false;
  const History& history = found->second;
  if (options_.evicts) return false;
  for (uint64_t number = before.acknowledged; number < history.operations.size(); ++number) {
    const Operation& operation = history.operations[number];
    if (!operation.bytes || now_ns >= operation.expires_from_ns) return false;
  }
  return true;
}

}  // namespace refract::campaign
