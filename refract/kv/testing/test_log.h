// SPDX-License-Identifier: Apache-2.0
// A log in ordinary memory that does what a test tells it, for tests of its writers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/owner/ports.h"

namespace refract::kv::test {

class ManualLog final : public ChangeLog {
 public:
  struct Record {
    Kind kind = Kind::kPut;
    uint64_t stamp = 0;
    uint64_t expires_wall_ns = 0;
    RequestId request = {};
    std::string key;
    std::string value;
    Offset buffer{};
    uint64_t end = 0;
    uint64_t group = 0;  // Of which it is; 0: of none.

    // Valid as long as the record stays where it is.
    [[nodiscard]] Change change() const {
      return {.kind = kind,
              .stamp = stamp,
              .expires_wall_ns = expires_wall_ns,
              .request = request,
              .key = std::as_bytes(std::span(key)),
              .value = std::as_bytes(std::span(value))};
    }
  };

  [[nodiscard]] Code room_for(uint64_t, uint64_t) const noexcept override { return room; }
  [[nodiscard]] Code room_for_group(uint64_t changes, uint64_t bytes) const noexcept override {
    return bytes + changes > group_bytes_max ? Code::kTooLarge : room;
  }
  // One position for all of them.
  void append_group(uint64_t number, std::span<const Change> changes) noexcept override {
    REFRACT_CHECK(!changes.empty() && changes.front().stamp > number);
    const auto heard = std::exchange(on_append, nullptr);
    const uint64_t needed_before = std::exchange(needed_bytes_min, UINT64_MAX);
    position += 1'000;
    for (const Change& change : changes) {
      position -= 1'000;
      append(change);
      records.back().group = number;
    }
    needed_bytes_min = needed_before;
    on_append = heard;
    if (on_append) on_append(records.back());
  }
  void append(const Change& change) noexcept override {
    REFRACT_CHECK(room == Code::kOk);
    REFRACT_CHECK(records.empty() || change.stamp > records.back().stamp);
    const auto text = [](std::span<const std::byte> bytes) {
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    position += 1'000;
    records.push_back({.kind = change.kind,
                       .stamp = change.stamp,
                       .expires_wall_ns = change.expires_wall_ns,
                       .request = change.request,
                       .key = text(change.key),
                       .value = text(change.value),
                       .buffer = change.buffer,
                       .end = position});
    if (change.value.size() >= needed_bytes_min) needed[change.buffer.value] = position;
    if (!waits) confirmed_position = position;
    if (on_append) on_append(records.back());
  }
  [[nodiscard]] uint64_t appended() const noexcept override { return position; }
  [[nodiscard]] uint64_t confirmed() const noexcept override { return confirmed_position; }
  [[nodiscard]] Code failure() const noexcept override { return failed; }
  [[nodiscard]] uint64_t needed_until(Offset buffer) const noexcept override {
    const auto found = needed.find(buffer.value);
    return found == needed.end() || found->second <= confirmed_position ? 0 : found->second;
  }

  void confirm_all() noexcept { confirmed_position = position; }
  // What is in it, as a replay wants it.
  [[nodiscard]] std::vector<Change> changes() const {
    std::vector<Change> all;
    all.reserve(records.size());
    for (const Record& record : records) all.push_back(record.change());
    return all;
  }

  bool waits = false;  // For confirm_all(); else everything is confirmed at once.
  Code room = Code::kOk;
  Code failed = Code::kOk;
  uint64_t group_bytes_max = UINT64_MAX;
  uint64_t needed_bytes_min = UINT64_MAX;  // Longer values are still to be read from their buffers.
  std::function<void(const Record&)> on_append;
  std::deque<Record> records;
  uint64_t position = 0;
  uint64_t confirmed_position = 0;
  std::map<uint64_t, uint64_t> needed;
};

}  // namespace refract::kv::test
