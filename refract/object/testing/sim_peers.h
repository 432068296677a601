// SPDX-License-Identifier: Apache-2.0
// Sessions between nodes over the simulated network.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/cluster/peers.h"
#include "refract/fabric/channel.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object::test {

// Sessions between hosts, by their names.
class SimPeers final : public cluster::Peers {
 public:
  SimPeers(runtime::Shard& shard, fabric::Domain& domain) : shard_(shard), domain_(domain) {}
  SimPeers(const SimPeers&) = delete;
  SimPeers& operator=(const SimPeers&) = delete;
  ~SimPeers() override {
    for (const auto& link : links_) link->task = {};
  }

  void reach(const cluster::MemberList& list, const std::string& self, Watcher& watcher) override {
    for (const cluster::Member& member : list.members) {
      if (member.name == self || find(member.name) != nullptr) continue;
      links_.push_back(std::make_unique<Link>());
      Link& link = *links_.back();
      link.name = member.name;
      link.task = keep(link, watcher);
      link.task.start();
    }
    for (const auto& link : links_) link->is_wanted = list.index_of(link->name).has_value();
  }
  void let_go(rpc::Session& session) noexcept override {
    std::erase_if(ended_, [&](const auto& one) { return one.get() == &session; });
  }
  [[nodiscard]] Report trouble(std::string_view /*name*/) const override { return {Code::kOk, "", ""}; }

 private:
  struct Link {
    std::string name;
    bool is_wanted = true;
    std::unique_ptr<rpc::Session> session;
    runtime::Task<> task;
  };
  [[nodiscard]] Link* find(std::string_view name) const {
    for (const auto& link : links_) {
      if (link->name == name) return link.get();
    }
    return nullptr;
  }
  [[nodiscard]] runtime::Task<> keep(Link& link, Watcher& watcher) {
    for (;;) {
      co_await shard_.sleep_for(2 * kMillisecond_ns);
      if (!link.is_wanted) continue;
      const Reported<fabric::Channel*> channel = domain_.connect(link.name);
      if (!channel) continue;
      link.session = std::make_unique<rpc::Session>(**channel, shard_);
      while (link.session->state() == rpc::Session::State::kOpening)
        co_await shard_.sleep_for(100 * kMicrosecond_ns);
      const bool was_open = link.session->state() == rpc::Session::State::kOpen;
      if (was_open) watcher.peer_opened(link.name, *link.session);
      while (link.session->state() == rpc::Session::State::kOpen) {
        if (!link.is_wanted) link.session->close();
        co_await shard_.sleep_for(200 * kMicrosecond_ns);
      }
      rpc::Session& session = *link.session;
      if (was_open) ended_.push_back(std::move(link.session));
      link.session.reset();
      if (was_open) watcher.peer_closed(link.name, session);
    }
  }

  runtime::Shard& shard_;
  fabric::Domain& domain_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<rpc::Session>> ended_;
};

}  // namespace refract::object::test
