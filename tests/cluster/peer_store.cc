// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/peer_store.h"

#include <fmt/format.h>

#include <set>
#include <string>

namespace refract::test {
namespace {

class PeerStore final : public node::HostedStore, private rpc::Service, private cluster::Peers::Watcher {
 public:
  explicit PeerStore(const node::HostParts& parts) : parts_(parts) {}

  [[nodiscard]] Result<> mark_live(const storage::Record* /*last*/) override { return {}; }
  [[nodiscard]] uint64_t entry_count() const noexcept override { return 0; }
  void add_counters(const observe::AddCounter& /*add*/) const override {}
  void serve(std::vector<node::HostedMethods>& methods) override { methods.push_back({kMethodGreet, this}); }
  void answer_through(rpc::Server* server) noexcept override {
    server_ = server;
    if (parts_.peers == nullptr) return;
    parts_.members->call_on_change([this](const cluster::Members& members) { reach(members); });
    reach(*parts_.members);
  }

 private:
  void reach(const cluster::Members& members) {
    parts_.peers->reach(members.list(), members.self_name(), *this);
  }

  void peer_opened(const std::string& name, rpc::Session& session) noexcept override {
    up_.insert(name);
    const std::string& self = parts_.members->self_name();
    const uint64_t id = session.start({.method = kMethodGreet, .head = std::as_bytes(std::span(self))});
    if (id != 0) (void)session.finish(id);
  }
  void peer_closed(const std::string& name, rpc::Session& session) noexcept override {
    up_.erase(name);
    parts_.peers->let_go(session);
  }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) {
      if (call.header.method == kMethodTell) {
        const std::string text = told_to(call.from.session);
        server_->reply(call.from, Code::kOk, std::as_bytes(std::span(text)));
      } else if (parts_.is_node && parts_.is_node(call.from.session)) {
        greeted_by_.emplace(reinterpret_cast<const char*>(call.payload.data()), call.payload.size());
        server_->reply(call.from, Code::kOk);
      } else {
        server_->reply(call.from, Code::kAccessDenied);
      }
    }
  }

  [[nodiscard]] std::string told_to(rpc::SessionId session) const {
    if (parts_.peers == nullptr) return "alone";
    const cluster::MemberList& list = parts_.members->list();
    std::string text = fmt::format("{} {}", list.version, parts_.is_node(session) ? "node" : "client");
    for (const cluster::Member& member : list.members) {
      if (member.name == parts_.members->self_name()) continue;
      const Report trouble = parts_.peers->trouble(member.name);
      const bool is_up = up_.contains(member.name);
      if (is_up != (trouble.code == Code::kOk)) text += "; CONTRADICTION";
      text += fmt::format("; {} {}", member.name, is_up ? "up" : trouble.what);
    }
    text += "; greeted by";
    for (const std::string& name : greeted_by_) text += " " + name;
    return text;
  }

  const node::HostParts parts_;
  rpc::Server* server_ = nullptr;
  std::set<std::string> up_;
  std::set<std::string> greeted_by_;
};

}  // namespace

std::unique_ptr<node::HostedStore> host_peer_store(const node::HostParts& parts) {
  return std::make_unique<PeerStore>(parts);
}

}  // namespace refract::test
