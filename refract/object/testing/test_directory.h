// SPDX-License-Identifier: Apache-2.0
// One node of a list, over the loopback provider, in one thread and virtual time: other members call it as a
// test says, and answer what it calls as a test says.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/base/hash.h"
#include "refract/cluster/members.h"
#include "refract/cluster/peers.h"
#include "refract/cluster/routing.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/kv/testing/test_service.h"
#include "refract/object/testing/directory_bodies.h"
#include "refract/object/testing/test_objects.h"
#include "refract/rpc/session.h"

namespace refract::object::test {

// Sessions to other members are opened when a test says so.
class ToldPeers final : public cluster::Peers {
 public:
  void reach(const cluster::MemberList& /*list*/, const std::string& /*self*/, Watcher& watcher) override {
    watcher_ = &watcher;
  }
  void let_go(rpc::Session& session) noexcept override {
    std::erase_if(ended_, [&](const auto& one) { return one.get() == &session; });
  }
  [[nodiscard]] Report trouble(std::string_view /*name*/) const override { return {Code::kOk, "", ""}; }

  void opened(const std::string& name, std::unique_ptr<rpc::Session> session) {
    session_ = std::move(session);
    name_ = name;
    watcher_->peer_opened(name_, *session_);
  }
  // Whether there is one, open or not told of yet.
  [[nodiscard]] rpc::Session* session() const { return session_.get(); }
  // It has closed.
  void closed() {
    rpc::Session& session = *session_;
    ended_.push_back(std::move(session_));
    watcher_->peer_closed(name_, session);
  }

 private:
  Watcher* watcher_ = nullptr;
  std::string name_;
  std::unique_ptr<rpc::Session> session_;
  std::vector<std::unique_ptr<rpc::Session>> ended_;
};

// The node "a" of the members a, b and c.
class ToldNode {
 public:
  static constexpr uint64_t kChunks = 8;
  static constexpr fabric::LoopbackOptions kLink = {
      .depth = 64, .message_bytes_max = 4096, .one_sided_bytes_min = 512, .reads_bypass_cpu = true};

  ToldNode() : pages_(kChunks * kChunkBytes / sizeof(Page)), idler(clock), shard(clock, {.idler = &idler}) {
    clock.set_now_ns(kSecond_ns);
    auto* const base = static_cast<std::byte*>(pages_.data()->bytes);
    format_space(base, kChunks, kChunks, clock);
    owner_ = std::make_unique<Owner>(shard, server_domain, clock,
                                     OwnerOptions{.base = base,
                                                  .chunks = kChunks,
                                                  .log = &fences,
                                                  .limit = 2 * kMiB,
                                                  .growth = nullptr,
                                                  .peers = &peers,
                                                  .identity = {1, 2}});
    answers_.server.emplace(answers_, shard);
    others_ = std::make_unique<fabric::Dispatcher>(other_domain, shard, &*answers_.server);
    for (fabric::Domain* domain : {&server_domain, &other_domain}) idler.watch(*domain);
    follow(kListVersion);
  }
  ~ToldNode() {
    owner_->service->answer_through(nullptr);
    owner_->directory->answer_through(nullptr);
    owner_->giver->answer_through(nullptr);
    owner_->dispatcher.reset();
    owner_->server.reset();
    owner_->giver.reset();
    owner_->service.reset();
    owner_->directory.reset();
  }
  ToldNode(const ToldNode&) = delete;
  ToldNode& operator=(const ToldNode&) = delete;

  void follow(uint64_t version) {
    list = {.version = version,
            .members = {{.name = "a", .host = "127.0.0.1", .port = 7400},
                        {.name = "b", .host = "127.0.0.1", .port = 7401},
                        {.name = "c", .host = "127.0.0.1", .port = 7402}}};
    if (!members_) {
      members_.emplace(*cluster::Members::create(list, "a"));
    } else {
      REFRACT_CHECK(members_->take(list).has_value());
    }
    directory().follow(*members_);
  }
  [[nodiscard]] uint64_t digest() const { return hash_key(as_bytes(cluster::to_text(list)), 0); }

  // A session of another process to the node; it becomes a member's by the first call as one.
  using Peer = std::unique_ptr<rpc::Session>;
  [[nodiscard]] Peer connect() { return connect(other_domain, "a"); }
  // The node's session to the member "b".
  void reach() { peers.opened("b", connect(server_domain, "b")); }
  void lose() {
    peers.session()->close();
    settle();  // No time passes.
    REFRACT_CHECK(peers.session()->state() == rpc::Session::State::kClosed);
    peers.closed();
    settle();
  }

  [[nodiscard]] Answer call(const Peer& peer, uint16_t method, std::string_view body) {
    const runtime::OpResult result = peer->call_and_wait({.method = method, .head = as_bytes(body)},
                                                         shard.refresh_now() + 100 * kSecond_ns);
    REFRACT_CHECK(result.value == 1);  // It was answered.
    return {.code = result.code, .bytes = kv::test::text_of(result.bytes)};
  }
  [[nodiscard]] Answer call(const Peer& peer, wire::DirectoryMethod method, std::string_view body) {
    return call(peer, static_cast<uint16_t>(method), body);
  }

  [[nodiscard]] Owner& owner() { return *owner_; }
  [[nodiscard]] Directory& directory() { return *owner_->directory; }

  template <typename Done>
  [[nodiscard]] bool run_until(Done&& done) {
    return shard.run_until(done, shard.refresh_now() + 1000 * kSecond_ns);
  }
  void settle() {
    for (int turn = 0; turn < 16; ++turn) (void)shard.poll_once();
  }
  void pass(uint64_t ns) {
    const uint64_t until_ns = shard.refresh_now() + ns;
    (void)shard.run_until([] { return false; }, until_ns);
    if (clock.now_ns() < until_ns) clock.set_now_ns(until_ns);
    (void)shard.refresh_now();
    settle();
  }

  [[nodiscard]] Peer connect(fabric::Domain& from, std::string_view to) {
    const Reported<fabric::Channel*> channel = from.connect(to);
    REFRACT_CHECK(channel.has_value());
    auto session = std::make_unique<rpc::Session>(**channel, shard);
    REFRACT_CHECK(run_until([&] { return session->state() == rpc::Session::State::kOpen; }));
    return session;
  }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> pages_;

 public:
  struct Fences final : StoreLog {
    void stored(Offset /*at*/, std::span<const std::byte> /*bytes*/) noexcept override {}
    void fenced() noexcept override { ++count; }
    uint64_t count = 0;
  } fences;
  cluster::MemberList list;
  ManualClock clock;

  kv::test::JumpingIdler idler;
  runtime::Shard shard;
  fabric::LoopbackHub hub;
  fabric::LoopbackDomain other_domain{hub, "b", kLink};
  fabric::LoopbackDomain server_domain{hub, "a", kLink};
  ToldPeers peers;
  // What the member "b" answers to a call. Nothing: the test says it later.
  using Said = std::pair<Code, std::string>;
  std::function<std::optional<Said>(uint16_t method, std::string_view body)> says =
      [](uint16_t, std::string_view) { return Said(Code::kUnavailable, ""); };
  // To the oldest call without an answer.
  void answer_late(const Said& said) {
    answers_.server->reply(answers_.open.front(), said.first, as_bytes(said.second));
    answers_.open.pop_front();
    settle();
  }
  // True: it answers that call later, by reply(), or never.
  std::function<bool(const rpc::Responder& from)> keeps;
  void reply(const rpc::Responder& to, const Said& said) {
    answers_.server->reply(to, said.first, as_bytes(said.second));
    settle();
  }

 private:
  struct Answers final : rpc::Service {
    explicit Answers(ToldNode& of) : node(of) {}
    void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
      for (const rpc::IncomingCall& call : calls) {
        if (node.keeps && node.keeps(call.from)) continue;
        const std::optional<Said> said = node.says(call.header.method, kv::test::text_of(call.payload));
        if (said) {
          server->reply(call.from, said->first, as_bytes(said->second));
        } else {
          open.push_back(call.from);
        }
      }
    }
    ToldNode& node;
    std::deque<rpc::Responder> open;
    std::optional<rpc::Server> server;
  };
  std::optional<cluster::Members> members_;
  std::unique_ptr<Owner> owner_;
  Answers answers_{*this};
  std::unique_ptr<fabric::Dispatcher> others_;
};

[[nodiscard]] inline std::string hello_body(const ToldNode& node, std::string_view name,
                                            const std::array<uint64_t, 2>& memory = {5, 6}) {
  return body_of(wire::HelloRequest{.list_version = node.list.version,
                                    .list_digest = node.digest(),
                                    .identity = {memory[0], memory[1]},
                                    .name_bytes = short_of(name.size()),
                                    .reserved = {}},
                 name);
}
// Ids whose home is the named node.
[[nodiscard]] inline std::string id_homed_at(const ToldNode& node, std::string_view home, int number = 0) {
  const cluster::Routing routing(node.list);
  const size_t wanted = *node.list.index_of(home);
  for (int i = 0;; ++i) {
    std::string id = "object" + std::to_string(i);
    uint8_t first = 0;
    (void)routing.nodes_of(cluster::slot_of(id), std::span(&first, 1));
    if (first == wanted && number-- == 0) return id;
  }
}

}  // namespace refract::object::test
