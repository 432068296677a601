// SPDX-License-Identifier: Apache-2.0
// Whatever a peer sends, on either end: the input is cut into messages, which a server and a session then
// receive. The server's invariant is its own: every call that it hands over can be answered, and closing
// affects no other session.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "refract/base/check.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"

namespace refract::rpc {
namespace {

// Takes everything; remembers only whether it was closed.
class SinkChannel final : public fabric::Channel {
 public:
  [[nodiscard]] size_t post(std::span<const fabric::Request> requests) noexcept override {
    // Now and then no room, so that the outbox is used.
    return ++posts_ % 3 == 0 ? 0 : requests.size();
  }
  [[nodiscard]] size_t room() const noexcept override { return 8; }
  [[nodiscard]] const fabric::Capabilities& capabilities() const noexcept override { return capabilities_; }
  void close() noexcept override { closed = true; }

  bool closed = false;

 private:
  fabric::Capabilities capabilities_ = {.depth = 8, .message_bytes_max = 512};
  unsigned posts_ = 0;
};

class AnsweringService final : public Service {
 public:
  void handle(std::span<const IncomingCall> calls) noexcept override {
    for (const IncomingCall& call : calls) {
      REFRACT_CHECK(call.header.bytes == call.payload.size());
      server->reply(call.from, Code::kOk, call.payload);
    }
  }
  Server* server = nullptr;
};

// The bytes in 8-byte aligned storage of exactly their length, so that the sanitizer sees a read behind them.
class Messages {
 public:
  explicit Messages(std::span<const uint8_t> input) {
    while (!input.empty()) {
      const size_t bytes = std::min<size_t>(input[0], input.size() - 1);
      storage_.emplace_back(reinterpret_cast<const std::byte*>(input.data() + 1),
                            reinterpret_cast<const std::byte*>(input.data() + 1 + bytes));
      storage_.back().shrink_to_fit();
      input = input.subspan(1 + bytes);
    }
  }
  [[nodiscard]] std::vector<fabric::Completion> to(fabric::Channel& channel) const {
    std::vector<fabric::Completion> completions;
    for (const std::vector<std::byte>& bytes : storage_) {
      completions.push_back({.channel = &channel, .bytes = bytes, .op = fabric::Op::kReceive});
    }
    return completions;
  }

 private:
  std::vector<std::vector<std::byte>> storage_;
};

void fuzz_server(const Messages& messages) {
  runtime::Shard shard(system_clock(), {.ops_max = 16});
  AnsweringService service;
  SinkChannel channel;
  SinkChannel other;
  Server server(service, shard, {.sessions_max = 4});
  service.server = &server;
  server.on_opened(channel, Code::kOk);
  server.on_opened(other, Code::kOk);
  server.on_messages(messages.to(channel));
  REFRACT_CHECK(!other.closed);
  fabric::Endpoint* endpoint = static_cast<fabric::Endpoint*>(channel.context);
  endpoint->channel = nullptr;
  server.on_closed(channel, Code::kOk);
  REFRACT_CHECK(server.session_count() == 1);
}

void fuzz_session(const Messages& messages) {
  runtime::Shard shard(system_clock(), {.ops_max = 16});
  SinkChannel channel;
  Session session(channel, shard, {.credits = 4});
  session.on_opened(channel, Code::kOk);
  const uint64_t first = session.start({.method = 1});
  const uint64_t second = session.start({.method = 2});
  session.on_messages(messages.to(channel));
  (void)session.finish(first);
  (void)session.finish(second);
  session.on_messages(messages.to(channel));
}

}  // namespace
}  // namespace refract::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const refract::rpc::Messages messages({data, size});
  refract::rpc::fuzz_server(messages);
  refract::rpc::fuzz_session(messages);
  return 0;
}
