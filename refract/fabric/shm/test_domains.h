// SPDX-License-Identifier: Apache-2.0
// A node and a client's domain in one thread, for this folder's tests.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/test_node.h"

namespace refract::fabric::shm {

// One end's completions, with echoing on request.
struct End {
  Domain* domain;
  bool echo = false;
  std::vector<Completion> seen;
  std::vector<std::vector<std::byte>> messages;

  void poll() {
    std::array<Completion, 64> completions;
    const size_t count = domain->poll(completions);
    for (const Completion& completion : std::span(completions).first(count)) {
      seen.push_back(completion);
      if (completion.op != Op::kReceive) continue;
      messages.emplace_back(completion.bytes.begin(), completion.bytes.end());
      Request answer{.local = {messages.back().data(), messages.back().size()}, .tail = {}, .op = Op::kSend};
      if (!echo) continue;
      EXPECT_EQ(completion.channel->post({&answer, 1}), 1u);
    }
    domain->flush();
  }
  [[nodiscard]] const Completion* find(Op op, const Channel* channel = nullptr) const {
    for (const Completion& each : seen) {
      if (each.op == op && (channel == nullptr || each.channel == channel)) return &each;
    }
    return nullptr;
  }
};

class DomainTest : public testing::Test {
 protected:
  explicit DomainTest(const MeetingOptions& options = {}, const LoanLimits& loans = {},
                      CopyTeam* copies = nullptr)
      : node_(options, loans, copies) {}

  // One turn of all ends, many times: until `done`. The bound is reached only by what hangs.
  template <typename Done>
  bool settle(Done done) {
    for (int turn = 0; turn < 20'000; ++turn) {
      if (done()) return true;
      if (node_.has_keeper()) node_.meeting().poll();
      if (node_.has_server()) {
        server_end_.domain = &node_.server();
        server_end_.poll();
      }
      client_end_.poll();
    }
    return false;
  }
  Channel* open() {
    const auto connected = client_->connect(node_.path());
    EXPECT_TRUE(connected.has_value());
    Channel* channel = *connected;
    EXPECT_TRUE(settle([&] { return client_end_.find(Op::kOpened, channel) != nullptr; }));
    EXPECT_EQ(client_end_.find(Op::kOpened, channel)->code, Code::kOk) << client_->last_refusal().to_string();
    return channel;
  }
  bool echoes(Channel& channel, size_t bytes) {
    std::vector<std::byte> message(bytes, std::byte{42});
    Request request{.local = {message.data(), bytes}, .tail = {}, .op = Op::kSend};
    const size_t before = client_end_.messages.size();
    return channel.post({&request, 1}) == 1 && settle([&] { return client_end_.messages.size() > before; }) &&
           client_end_.messages.back() == message;
  }
  // The client's own memory, mapped a second time, as a hostile client has it.
  ConnectionMemory& memory_of(size_t index) {
    const auto attachments = node_.meeting().attachments();
    const int memory = attachments.at(index).memory_fd;
    auto mapped = map_shared(memory, fixed_length(memory), true, kConnectionBytes);
    EXPECT_TRUE(mapped.has_value());
    mappings_.push_back(std::move(*mapped));
    return *reinterpret_cast<ConnectionMemory*>(mappings_.back().data());
  }

  TestNode node_;
  std::unique_ptr<ClientDomain> client_ = make_client();
  End client_end_{client_.get(), false, {}, {}};
  End server_end_{nullptr, true, {}, {}};
  std::vector<Mapping> mappings_;
};

}  // namespace refract::fabric::shm
