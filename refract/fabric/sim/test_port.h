// SPDX-License-Identifier: Apache-2.0
// The least that a task of a test needs to talk over a domain: its messages in a queue, its requests by
// tokens.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/fabric/sim/world.h"
#include "refract/runtime/shard.h"

namespace refract::sim {

class TestPort final : public runtime::Poller {
 public:
  explicit TestPort(Host& host) : host_(&host) { host.shard().add(*this); }
  TestPort(const TestPort&) = delete;
  TestPort& operator=(const TestPort&) = delete;
  ~TestPort() override { host_->shard().remove(*this); }

  size_t poll() noexcept override {
    std::array<fabric::Completion, 32> completions;
    const size_t count = host_->domain().poll(completions);
    for (const fabric::Completion& completion : std::span(completions).first(count)) take(completion);
    host_->domain().flush();
    return count;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "test_port"; }

  // A request is done, or the deadline has passed.
  [[nodiscard]] runtime::Pending begin(fabric::Channel& channel, fabric::Request request,
                                       uint64_t timeout_ns = kSecond_ns) {
    runtime::Shard& shard = host_->shard();
    runtime::Pending pending = shard.ops().begin(shard.refresh_now() + timeout_ns);
    request.token = pending.token();
    if (channel.post({&request, 1}) == 0) shard.ops().complete(request.token, {.code = Code::kOverloaded});
    host_->domain().flush();
    return pending;
  }
  bool send(fabric::Channel& channel, uint64_t word) {
    const fabric::Request request = {
        .local = {reinterpret_cast<std::byte*>(&word), sizeof(word)}, .tail = {}, .op = fabric::Op::kSend};
    const bool sent = channel.post({&request, 1}) == 1;
    host_->domain().flush();
    return sent;
  }
  [[nodiscard]] fabric::Channel* connect(std::string_view address) {
    const Reported<fabric::Channel*> channel = host_->domain().connect(address);
    return channel ? *channel : nullptr;
  }

  // Called for each message, if set; otherwise they are kept in `words`.
  std::function<void(fabric::Channel&, uint64_t)> on_word;
  std::deque<uint64_t> words;
  std::vector<fabric::Channel*> open;
  std::vector<Code> failed_opens;
  std::vector<Code> closed;

 private:
  void take(const fabric::Completion& completion) {
    switch (completion.op) {
      case fabric::Op::kOpened:
        if (completion.code == Code::kOk) {
          open.push_back(completion.channel);
        } else {
          failed_opens.push_back(completion.code);
        }
        break;
      case fabric::Op::kClosed:
        std::erase(open, completion.channel);
        closed.push_back(completion.code);
        break;
      case fabric::Op::kReceive: {
        uint64_t word = 0;
        std::memcpy(&word, completion.bytes.data(), sizeof(word));
        if (on_word) {
          on_word(*completion.channel, word);
        } else {
          words.push_back(word);
        }
        break;
      }
      default:
        if (completion.token != 0) {
          host_->shard().ops().complete(completion.token,
                                        {.code = completion.code, .value = completion.value});
        }
    }
  }

  Host* host_;
};

}  // namespace refract::sim
