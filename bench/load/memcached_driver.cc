// SPDX-License-Identifier: Apache-2.0
#include "bench/load/memcached_driver.h"

#include <fmt/core.h>

#include <array>
#include <string_view>
#include <utility>

#include "bench/measure/tcp_socket.h"

namespace refract::bench {

MemcachedDriver::MemcachedDriver(Descriptor socket, const DriverOptions& options, const Contents& contents)
    : PipelinedDriver("memcached", std::move(socket), options, contents), reader_(target()) {}

Reported<std::unique_ptr<MemcachedDriver>> MemcachedDriver::connect(uint16_t port,
                                                                    const DriverOptions& options,
                                                                    const Contents& contents) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
  if (!socket) return report(socket.error());
  return std::unique_ptr<MemcachedDriver>(new MemcachedDriver(std::move(*socket), options, contents));
}

void MemcachedDriver::ask(Slot& slot) {
  const bool is_get = !slot.operation.is_put();
  append_request(slot, is_get ? MemcachedOp::kGet : MemcachedOp::kSet, 0);
}

void MemcachedDriver::append_request(const Slot& slot, MemcachedOp op, uint64_t version) {
  const size_t key_bytes = contents().key_bytes();
  std::array<char, kMemcachedRequestBytesMax + kKeyBytesMax> request;
  const size_t head = write_request({.op = op,
                                     .key_bytes = key_bytes,
                                     .value_bytes = op == MemcachedOp::kGet ? 0 : contents().value_bytes(),
                                     .version = version},
                                    std::span(request).first<kMemcachedRequestBytesMax>());
  contents().write_key(slot.operation.index, reinterpret_cast<std::byte*>(&request[head]));
  append_text(std::string_view(request.data(), head + key_bytes));
  if (op == MemcachedOp::kSet) append_value(slot);
}

PipelinedDriver::Answer MemcachedDriver::refused(const MemcachedReply& reply) {
  return {.step = Step::kBroken,
          .what = fmt::format("refused a {}: {}", reply.op == MemcachedOp::kGet ? "GET" : "SET",
                              reply.text.empty() ? fmt::format("status {}", reply.status)
                                                 : std::string(reply.text.substr(0, 120)))};
}

PipelinedDriver::Answer MemcachedDriver::take_answer(Slot* slot) {
  const MemcachedReply reply = reader_.next();
  if (reply.kind == MemcachedReply::Kind::kNone) return {};
  if (slot == nullptr) return {.step = Step::kBroken};
  if (reply.kind == MemcachedReply::Kind::kMalformed) {
    return {.step = Step::kBroken, .what = "answers with bytes that make no sense"};
  }
  Operation& operation = slot->operation;
  const bool is_get = operation.is_get() || (operation.act == Act::kReplace && slot->phase == 0);
  if (is_get != (reply.op == MemcachedOp::kGet)) {
    return {.step = Step::kBroken, .what = "answers another request"};
  }
  switch (static_cast<MemcachedStatus>(reply.status)) {
    case MemcachedStatus::kOk:
      if (is_get && !is_value_of(operation.index, reply.bytes)) {
        return {.step = Step::kDone, .code = Code::kCorrupt};
      }
      if (operation.act != Act::kReplace || !is_get) return {.step = Step::kDone};
      slot->phase = 1;
      append_request(*slot, MemcachedOp::kSet, reply.version);
      return {.step = Step::kAsked};
    case MemcachedStatus::kMissing:
      if (is_get) return {.step = Step::kDone, .code = Code::kNotFound};
      break;
    case MemcachedStatus::kOtherVersion:
      if (is_get) break;
      if (++operation.retries > kRetriesMax) return {.step = Step::kDone, .code = Code::kOverloaded};
      slot->phase = 0;
      ask(*slot);
      return {.step = Step::kAsked};
  }
  return refused(reply);
}

}  // namespace refract::bench
