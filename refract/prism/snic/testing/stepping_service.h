// SPDX-License-Identifier: Apache-2.0
// Serves chains as the executor's own service does, but operation by operation: between two operations of one
// chain those of others are executed, as an executor with several engines would. For tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/prism/operation.h"
#include "refract/prism/snic/connection.h"
#include "refract/prism/snic/executor.h"
#include "refract/prism/snic/run.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::prism::snic {

class SteppingService final : public rpc::Service {
 public:
  struct Parts {
    Executor& executor;
    runtime::Shard& shard;
    uint16_t region;
    ChainRights rights;
    uint64_t seed;
    std::function<void()> when_quiet;  // Called now and then, with no chain under way.
  };
  explicit SteppingService(Parts parts) : parts_(std::move(parts)), prng_(parts_.seed) {}

  void answer_through(rpc::Server* server) noexcept { server_ = server; }
  [[nodiscard]] uint64_t most_open_runs() const noexcept { return most_open_runs_; }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) {
      Open& open = sessions_[call.from.session.bits];
      if (call.header.method == kAttachMethod) {
        attach(open, call.from);
      } else {
        open.waiting.push_back({.from = call.from, .chain = {call.payload.begin(), call.payload.end()}});
      }
    }
    if (!is_working_) {
      is_working_ = true;
      parts_.shard.spawn(work(*this));
    }
  }
  void session_closed(rpc::SessionId session) noexcept override {
    // A chain under way is executed to its end, also when its client is gone.
    sessions_[session.bits].is_closed = true;
  }

 private:
  struct Waiting {
    rpc::Responder from;
    std::vector<std::byte> chain;
  };
  struct Open {
    Connection connection;
    std::deque<Waiting> waiting;
    std::unique_ptr<Run> run;  // Of the first that waits.
    std::vector<std::byte> room = std::vector<std::byte>(4096);
    bool is_closed = false;
  };

  void attach(Open& open, const rpc::Responder& from) noexcept {
    const Grant grant = test::needed(open.connection.grant(parts_.region, parts_.rights));
    const AttachReply reply{.key = grant.key.bits,
                            .bytes = parts_.executor.find(parts_.region)->bytes,
                            .root = 0,
                            .region = parts_.region,
                            .rights = parts_.rights.bits,
                            .chain_version = kChainVersion,
                            .reserved = {}};
    server_->reply(from, Code::kOk, std::as_bytes(std::span(&reply, 1)));
  }

  // One operation of some chain. False: none is under way, and none may begin.
  bool step(bool may_begin) noexcept {
    std::vector<Open*> ready;
    for (auto& [id, open] : sessions_) {
      if (open.run != nullptr || (may_begin && !open.waiting.empty())) ready.push_back(&open);
    }
    if (ready.empty()) return false;
    Open& open = *ready[prng_.below(ready.size())];
    if (open.run == nullptr) {
      open.run = std::make_unique<Run>(parts_.executor, open.connection);
      if (!open.run->begin(open.waiting.front().chain, open.room)) {
        open.run.reset();
        server_->reply(open.waiting.front().from, Code::kMalformed);
        open.waiting.pop_front();
        return true;
      }
    }
    most_open_runs_ = std::max<uint64_t>(most_open_runs_, parts_.executor.open_runs());
    (void)open.run->step();
    if (open.run->done()) {
      const size_t bytes = open.run->end();
      open.run.reset();
      server_->reply(open.waiting.front().from, Code::kOk, std::span(open.room).first(bytes));
      open.waiting.pop_front();
    }
    return true;
  }

  static runtime::Task<> work(SteppingService& self) {
    uint64_t steps = 0;
    // Every few steps all that is under way comes to its end first, so that what was reported can go back.
    while (self.step(++steps % 64 < 48)) {
      const uint64_t pause_ns = self.prng_.below(2'000);
      co_await self.parts_.shard.sleep_for(pause_ns);
      if (self.parts_.executor.open_runs() == 0) self.parts_.when_quiet();
    }
    self.is_working_ = false;
    const bool has_more =
        std::ranges::any_of(self.sessions_, [](const auto& open) { return !open.second.waiting.empty(); });
    if (has_more) {
      self.is_working_ = true;
      self.parts_.shard.spawn(work(self));
    }
  }

  Parts parts_;
  Prng prng_;
  rpc::Server* server_ = nullptr;
  std::map<uint64_t, Open> sessions_;
  bool is_working_ = false;
  uint64_t most_open_runs_ = 0;
};

}  // namespace refract::prism::snic
