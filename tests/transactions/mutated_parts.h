// SPDX-License-Identifier: Apache-2.0
// Shards that serve transactions by a rule that is broken on purpose: what they are asked is another thing by
// the time they see it, or a word says something else while they look.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/campaign/kv_server.h"

#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/rpc/server.h"

namespace refract::campaign {

class OneProcess;

// Words of a node's shards that say something else for a while: to their owners, and to no reader.
class FalseWords {
 public:
  explicit FalseWords(OneProcess& process) noexcept : process_(process) {}
  FalseWords(const FalseWords&) = delete;
  FalseWords& operator=(const FalseWords&) = delete;
  ~FalseWords();

  [[nodiscard]] kv::Decision look(kv::DecisionPlace place) const noexcept;
  void set(kv::DecisionPlace place, kv::Decision decision);
  // All that is not decided has been decided against.
  void abort_all();

 private:
  struct Saved {
    std::byte* at;
    uint64_t word;
  };
  void set(std::byte* at, uint64_t word);
  [[nodiscard]] std::byte* at(kv::DecisionPlace place) const noexcept;

  OneProcess& process_;
  std::vector<Saved> saved_;
};

// A put of a held key finds that no transaction holds it; or functions of a batch run twice.
class MutatedTable final : public rpc::Service {
 public:
  // All outlive the service.
  MutatedTable(Mutation mutation, const SharedProcess::Shard& shard, rpc::Service& service,
               OneProcess& process) noexcept
      : mutation_(mutation), shard_(shard), service_(service), process_(process) {}

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override { service_.session_opened(session); }
  void session_closed(rpc::SessionId session) noexcept override { service_.session_closed(session); }

 private:
  [[nodiscard]] bool is_of_held_key(const rpc::IncomingCall& call) const noexcept;
  // In front of their batch.
  void run_functions(const rpc::IncomingCall& call);

  Mutation mutation_;
  SharedProcess::Shard shard_;
  rpc::Service& service_;
  OneProcess& process_;
};

class MutatedParts final : public rpc::Service {
 public:
  // All outlive the service.
  MutatedParts(Mutation mutation, const SharedProcess::Shard& shard, rpc::Service& service,
               OneProcess& process) noexcept
      : mutation_(mutation), shard_(shard), service_(service), process_(process) {}
  void answer_through(rpc::Server* server) noexcept { server_ = server; }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override { service_.session_opened(session); }
  void session_closed(rpc::SessionId session) noexcept override { service_.session_closed(session); }

 private:
  void handle(const rpc::IncomingCall& call);
  void hand_on(const rpc::IncomingCall& call) { service_.handle({&call, 1}); }
  void settle(const rpc::IncomingCall& call);
  void give_words(const rpc::IncomingCall& call);
  // True: the call has been answered.
  [[nodiscard]] bool check_only(const rpc::IncomingCall& call);
  [[nodiscard]] bool decide_late(const rpc::IncomingCall& call);
  [[nodiscard]] bool prepare_unmarked(const rpc::IncomingCall& call);
  [[nodiscard]] bool decide_for_anything(const rpc::IncomingCall& call);
  // Without its conditions.
  void hand_on_bare(const rpc::IncomingCall& call);
  // Without the moment at which other parts expire.
  void hand_on_timeless(const rpc::IncomingCall& call);

  Mutation mutation_;
  SharedProcess::Shard shard_;
  rpc::Service& service_;
  OneProcess& process_;
  rpc::Server* server_ = nullptr;
};

}  // namespace refract::campaign
