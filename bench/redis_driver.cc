// SPDX-License-Identifier: Apache-2.0
#include "bench/redis_driver.h"

#include <fmt/core.h>

#include <array>
#include <string_view>
#include <utility>

#include "bench/tcp_socket.h"

namespace refract::bench {
namespace {

Code outcome_of(const Reply& reply, const Operation& operation) {
  switch (reply.kind) {
    case Reply::Kind::kStatus:
      return operation.is_get ? Code::kMalformed : Code::kOk;
    case Reply::Kind::kValue:
      return operation.is_get ? Code::kOk : Code::kMalformed;
    case Reply::Kind::kMissing:
      return operation.is_get ? Code::kNotFound : Code::kMalformed;
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
      value_head_(fmt::format("${}\r\n", contents.value_bytes())) {}

Reported<std::unique_ptr<RedisDriver>> RedisDriver::connect(uint16_t port, const DriverOptions& options,
                                                            const Contents& contents) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
  if (!socket) return report(socket.error());
  return std::unique_ptr<RedisDriver>(new RedisDriver(std::move(*socket), options, contents));
}

void RedisDriver::ask(Slot& slot) {
  std::array<char, kKeyBytesMax> key;
  const std::string_view key_text(key.data(), contents().key_bytes());
  contents().write_key(slot.operation.index, reinterpret_cast<std::byte*>(key.data()));
  append_text(slot.operation.is_get ? get_head_ : put_head_);
  append_text(key_text);
  append_text("\r\n");
  if (slot.operation.is_get) return;
  append_text(value_head_);
  append_value(slot);
  append_text("\r\n");
}

PipelinedDriver::Answer RedisDriver::take_answer(Slot* slot) {
  const Reply reply = reader_.next();
  if (reply.kind == Reply::Kind::kNone) return {};
  if (slot == nullptr) return {.step = Step::kBroken};
  const Operation& operation = slot->operation;
  const Code code = outcome_of(reply, operation);
  if (code == Code::kMalformed) {
    return {
        .step = Step::kBroken,
        .what = fmt::format("refused a {}: {}", operation.is_get ? "GET" : "SET", reply.text.substr(0, 120))};
  }
  const bool is_wrong = reply.kind == Reply::Kind::kValue && !is_value_of(operation.index, reply.bytes);
  return {.step = Step::kDone, .code = is_wrong ? Code::kCorrupt : code};
}

}  // namespace refract::bench
