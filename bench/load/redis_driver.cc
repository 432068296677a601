// SPDX-License-Identifier: Apache-2.0
#include "bench/load/redis_driver.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "bench/measure/tcp_socket.h"

namespace refract::bench {
namespace {

// The phases of a kScan, which begins with finding keys (0); those of a kReplace are GET, SET.
constexpr uint32_t kFindingAnew = 1;  // From the table's beginning, after its end.
constexpr uint32_t kGettingValues = 2;
constexpr uint64_t kRedisKeysPerWalk = 1'000;
// COUNT is how many buckets are looked at, not how many keys there are in them.
constexpr uint64_t kBucketsMin = 10;

Code outcome_of(const Reply& reply, bool is_get) {
  switch (reply.kind) {
    case Reply::Kind::kStatus:
      return is_get ? Code::kMalformed : Code::kOk;
    case Reply::Kind::kValue:
      return is_get ? Code::kOk : Code::kMalformed;
    case Reply::Kind::kMissing:
      return is_get ? Code::kNotFound : Code::kMalformed;
    default:
      return Code::kMalformed;
  }
}

}  // namespace

RedisDriver::RedisDriver(Descriptor socket, const DriverOptions& options, const Contents& contents)
    : PipelinedDriver("redis-server", std::move(socket), options, contents),
      reader_(target()),
      get_head_(fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n", contents.key_bytes())),
      put_head_(fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n", contents.key_bytes())),
      key_head_(fmt::format("\r\n${}\r\n", contents.key_bytes())),
      value_head_(fmt::format("${}\r\n", contents.value_bytes())) {}

Reported<std::unique_ptr<RedisDriver>> RedisDriver::connect(uint16_t port, const DriverOptions& options,
                                                            const Contents& contents) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
  if (!socket) return report(socket.error());
  std::unique_ptr<RedisDriver> driver(new RedisDriver(std::move(*socket), options, contents));
  if (!options.has_scans) return driver;
  driver->is_walking_ = true;
  if (const Reported<> walked = driver->perform({.act = Act::kScan}); !walked) return report(walked.error());
  driver->is_walking_ = false;
  return driver;
}

void RedisDriver::ask(Slot& slot) {
  switch (slot.operation.act) {
    case Act::kGet:
    case Act::kReplace:
      return ask_for_value(slot);
    case Act::kScan:
      slot.keys.clear();
      return ask_for_keys(is_walking_ ? 0 : cursors_[slot.operation.index % cursors_.size()],
                          is_walking_ ? kRedisKeysPerWalk : slot.operation.number);
    case Act::kPut:
    case Act::kInsert:
      return ask_to_set(slot);
  }
}

void RedisDriver::append_key(uint64_t index) {
  std::array<char, kKeyBytesMax> key;
  contents().write_key(index, reinterpret_cast<std::byte*>(key.data()));
  append_text(std::string_view(key.data(), contents().key_bytes()));
  append_text("\r\n");
}

void RedisDriver::ask_for_value(Slot& slot) {
  append_text(get_head_);
  append_key(slot.operation.index);
}

void RedisDriver::ask_to_set(Slot& slot) {
  append_text(put_head_);
  append_key(slot.operation.index);
  append_text(value_head_);
  append_value(slot);
  append_text("\r\n");
}

void RedisDriver::ask_for_keys(uint64_t cursor, uint64_t count) {
  append_text(fmt::format("SCAN {} COUNT {}\r\n", cursor, count));
}

void RedisDriver::ask_for_values(Slot& slot) {
  const size_t key_bytes = contents().key_bytes();
  append_text(fmt::format("*{}\r\n$4\r\nMGET", 1 + slot.keys.size() / key_bytes));
  for (size_t at = 0; at < slot.keys.size(); at += key_bytes) {
    append_text(key_head_);
    append_text(std::string_view(slot.keys).substr(at, key_bytes));
  }
  append_text("\r\n");
}

PipelinedDriver::Answer RedisDriver::refused(std::string_view command, const Reply& reply) {
  return {.step = Step::kBroken, .what = fmt::format("refused a {}: {}", command, reply.text.substr(0, 120))};
}

PipelinedDriver::Answer RedisDriver::take_answer(Slot* slot) {
  while (true) {
    const Reply reply = reader_.next();
    if (reply.kind == Reply::Kind::kNone) return {};
    if (slot == nullptr) return {.step = Step::kBroken};
    if (slot->operation.act != Act::kScan) return take_single(*slot, reply);
    // Many replies are one answer.
    Answer answer = slot->phase == kGettingValues ? take_of_values(*slot, reply) : take_of_keys(*slot, reply);
    if (answer.step != Step::kNone) {
      part_ = 0;
      return answer;
    }
  }
}

PipelinedDriver::Answer RedisDriver::take_single(Slot& slot, const Reply& reply) {
  const Operation& operation = slot.operation;
  const bool replaces = operation.act == Act::kReplace;
  const bool is_get = operation.is_get() || (replaces && slot.phase == 0);
  const Code code = outcome_of(reply, is_get);
  if (code == Code::kMalformed) return refused(is_get ? "GET" : "SET", reply);
  const bool has_value = reply.kind == Reply::Kind::kValue;
  if (has_value && !is_value_of(operation.index, reply.bytes)) {
    return {.step = Step::kDone, .code = Code::kCorrupt};
  }
  if (!replaces || !has_value) return {.step = Step::kDone, .code = code};
  slot.phase = 1;
  ask_to_set(slot);
  return {.step = Step::kAsked};
}

// "*2", the next cursor, "*N", N keys.
PipelinedDriver::Answer RedisDriver::take_of_keys(Slot& slot, const Reply& reply) {
  const auto* bytes = reinterpret_cast<const char*>(target().data());
  const uint64_t part = part_++;
  if (part == 0 || part == 2) {
    if (reply.kind != Reply::Kind::kArray) return refused("SCAN", reply);
    if (part == 0) return {};
    parts_ = 3 + reply.bytes;
  } else {
    if (reply.kind != Reply::Kind::kValue) return refused("SCAN", reply);
    if (part == 1) {
      next_cursor_ = 0;
      std::from_chars(bytes, bytes + reply.bytes, next_cursor_);
      return {};
    }
    if (reply.bytes == contents().key_bytes()) slot.keys.append(bytes, reply.bytes);
  }
  if (part_ < parts_) return {};
  return is_walking_ ? walk_on(slot) : scan_on(slot);
}

PipelinedDriver::Answer RedisDriver::walk_on(Slot& slot) {
  cursors_.push_back(next_cursor_);
  slot.keys.clear();
  if (next_cursor_ == 0) return {.step = Step::kDone};
  ask_for_keys(next_cursor_, kRedisKeysPerWalk);
  return {.step = Step::kAsked};
}

PipelinedDriver::Answer RedisDriver::scan_on(Slot& slot) {
  const size_t key_bytes = contents().key_bytes();
  const uint64_t wanted = slot.operation.number;
  const uint64_t found = std::min(slot.keys.size() / key_bytes, wanted);
  slot.operation.entries = static_cast<uint32_t>(found);
  // A scan that reaches the end starts again at the beginning, but once: a table may hold fewer than are
  // wanted.
  const bool is_through = slot.phase == kFindingAnew && next_cursor_ == 0;
  if (found < wanted && !is_through) {
    if (next_cursor_ == 0) slot.phase = kFindingAnew;
    ask_for_keys(next_cursor_, std::max(wanted - found, kBucketsMin));
    return {.step = Step::kAsked};
  }
  if (found == 0) return {.step = Step::kDone, .code = Code::kNotFound};
  slot.keys.resize(found * key_bytes);
  slot.phase = kGettingValues;
  ask_for_values(slot);
  return {.step = Step::kAsked};
}

// "*N", N values.
PipelinedDriver::Answer RedisDriver::take_of_values(Slot& slot, const Reply& reply) {
  const size_t key_bytes = contents().key_bytes();
  const uint64_t part = part_++;
  if (part == 0) {
    scan_code_ = Code::kOk;
    const bool is_all = reply.kind == Reply::Kind::kArray && reply.bytes == slot.keys.size() / key_bytes;
    return is_all ? Answer{} : refused("MGET", reply);
  }
  const auto* key = reinterpret_cast<const std::byte*>(slot.keys.data() + (part - 1) * key_bytes);
  if (reply.kind != Reply::Kind::kValue || !is_value_of(contents().index_of(key), reply.bytes)) {
    scan_code_ = reply.kind == Reply::Kind::kMissing ? Code::kNotFound : Code::kCorrupt;
  }
  if (part * key_bytes < slot.keys.size()) return {};
  return {.step = Step::kDone, .code = scan_code_};
}

}  // namespace refract::bench
