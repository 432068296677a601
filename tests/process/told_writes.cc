// SPDX-License-Identifier: Apache-2.0
#include "tests/process/told_writes.h"

#include <algorithm>

namespace refract::test {
namespace {

std::string key_of(uint64_t key) {
  return "key-" + std::to_string(key);
}

}  // namespace

NodeOptions durable_node(const std::string& folder, const std::string& durability,
                         const std::vector<std::string>& further) {
  NodeOptions options{.arguments = {"--data-durability", durability, "--data-folder", folder,
                                    "--memory-limit", "256MiB", "--memory-initial", "8MiB",
                                    "--restart-backoff", "0ns"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return options;
}

std::string ToldWrites::value_of(const Bytes& bytes) {
  std::string value = std::to_string(bytes.key) + "/" + std::to_string(bytes.number) + "/";
  value.append(bytes.count, static_cast<char>('a' + bytes.number % 26));
  return value;
}

bool ToldWrites::put(Client& client, uint64_t key, uint64_t bytes) {
  const uint64_t number = ++number_;
  bytes_[number] = bytes;
  Known& known = known_[key];
  known.asked.push_back(number);
  const auto put = client.put(key_of(key), value_of({.key = key, .number = number, .count = bytes}));
  code_ = put.code();
  if (!put) return false;
  known = {.acknowledged = number};
  ++acknowledged_;
  return true;
}

bool ToldWrites::is_value(const std::string& value, uint64_t key, uint64_t number) const {
  return number != 0 && value == value_of({.key = key, .number = number, .count = bytes_.at(number)});
}

std::string ToldWrites::difference(Client& client) const {
  for (const auto& [key, known] : known_) {
    const auto found = client.get(key_of(key));
    if (!found && found.code() == Code::kNotFound && known.acknowledged == 0) continue;
    if (!found) return key_of(key) + ": " + std::string(info(found.code()).text);
    bool is_known = is_value(*found, key, known.acknowledged);
    for (const uint64_t number : known.asked) is_known = is_known || is_value(*found, key, number);
    if (!is_known) {
      return key_of(key) + " has " + found->substr(0, 20) + ", and number " +
             std::to_string(known.acknowledged) + " was acknowledged";
    }
  }
  return {};
}

}  // namespace refract::test
