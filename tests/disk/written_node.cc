// SPDX-License-Identifier: Apache-2.0
#include "tests/disk/written_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "refract/base/units.h"

namespace refract::test {
namespace {

// Few and large, so that a disk is full soon. Each fourth is so large that the log's ring does not hold it.
constexpr uint64_t kKeys = 24;
constexpr uint64_t kValueBytes = 60'000;
constexpr uint64_t kLargeValueBytes = 1'500'000;
// More than a segment of the log and its ring hold.
constexpr uint64_t kPutsMost = 4 * 80 * kMiB / kValueBytes;
constexpr uint64_t kTimeout_ns = 2 * kSecond_ns;

std::string key_of(uint64_t key) {
  return fmt::format("key-{}", key);
}

std::string value_of(uint64_t key, uint64_t number) {
  std::string value = fmt::format("{}/{}/", key, number);
  value.resize(key % 4 == 0 ? kLargeValueBytes : kValueBytes, static_cast<char>('a' + number % 26));
  return value;
}

}  // namespace

void WrittenNode::start(const std::string& snapshot_every) {
  node_.reset();
  node_.emplace(NodeOptions{.arguments = {"--data-durability", durability_, "--data-folder", folder_,
                                          "--data-snapshot-every", snapshot_every, "--memory-limit", "128MiB",
                                          "--restart-backoff", "0ns"}});
}

void WrittenNode::kill_everything() {
  node_->kill_everything();
}

Client WrittenNode::connect() const {
  return node_->connect({.timeout_ns = kTimeout_ns});
}

Code WrittenNode::put(Client& client) {
  const uint64_t key = prng_.below(kKeys);
  Known& known = known_[key];
  const auto put = client.put(key_of(key), value_of(key, ++number_));
  if (put) {
    known = {.acknowledged = number_};
  } else if (put.code() == Code::kIndeterminate) {
    known.perhaps.push_back(number_);
  }
  return put.code();
}

std::map<Code, uint64_t> WrittenNode::put_until_refused(Client& client) {
  std::map<Code, uint64_t> answers;
  for (uint64_t i = 0; i < kPutsMost && answers[Code::kReadOnly] == 0; ++i) ++answers[put(client)];
  return answers;
}

std::string WrittenNode::difference(Client& client) const {
  for (const auto& [key, known] : known_) {
    const auto found = client.get(key_of(key));
    if (!found && found.code() == Code::kNotFound && known.acknowledged == 0) continue;
    if (!found) return fmt::format("{}: {}", key_of(key), info(found.code()).text);
    bool is_known = known.acknowledged != 0 && *found == value_of(key, known.acknowledged);
    for (const uint64_t one : known.perhaps) is_known |= *found == value_of(key, one);
    if (!is_known) {
      return fmt::format("{} has {}, and {} was acknowledged", key_of(key), found->substr(0, 20),
                         known.acknowledged);
    }
  }
  return {};
}

std::vector<std::string> WrittenNode::files(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) found.push_back(std::move(name));
  }
  std::ranges::sort(found);
  return found;
}

uint64_t WrittenNode::times_said(const std::string& words) const {
  const std::string errors = node_->errors();
  uint64_t count = 0;
  for (size_t at = errors.find(words); at != std::string::npos; at = errors.find(words, at + 1)) ++count;
  return count;
}

}  // namespace refract::test
