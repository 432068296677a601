// SPDX-License-Identifier: Apache-2.0
// Nodes that share their objects, over the simulated network: each a host whose memory outlives its process,
// and clients that speak to one of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/cluster/members.h"
#include "refract/cluster/routing.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/testing/test_service.h"
#include "refract/object/redis/redis_home.h"
#include "refract/object/testing/sim_peers.h"
#include "refract/object/testing/sim_redis.h"
#include "refract/object/testing/test_objects.h"
#include "refract/rpc/session.h"

namespace refract::object::test {

inline cluster::MemberList list_of(uint64_t version, std::initializer_list<std::string_view> names) {
  cluster::MemberList list{.version = version, .members = {}};
  for (const std::string_view name : names) {
    const auto port = static_cast<uint16_t>(7400 + list.members.size());
    list.members.push_back({.name = std::string(name), .host = "127.0.0.1", .port = port});
  }
  return list;
}

class SimMember {
 public:
  struct Options {
    uint64_t chunks = 24;
    uint64_t limit = 12 * kMiB;
    const RedisProcess* redis = nullptr;  // Has the directory; null: members are homes.
    uint64_t silent_after_ns = 5 * kSecond_ns;
    TransferLimits transfers = {};
    uint64_t grace_ns = 60 * kSecond_ns;
  };

  SimMember(sim::World& world, std::string_view name, cluster::MemberList list)
      : SimMember(world, name, std::move(list), Options{}) {}
  SimMember(sim::World& world, std::string_view name, cluster::MemberList list, const Options& options)
      : host(world.add_host(name)), options_(options), list_(std::move(list)), world_(world), name_(name) {
    begin_memory();
    host.on_restart([this](sim::Host&) { start(); });
    start();
  }
  // The process is killed; its memory stays, or is lost with the node.
  void crash(bool loses_memory = false) {
    world_.crash(host);
    process = nullptr;
    if (loses_memory) begin_memory();
  }
  [[nodiscard]] uint64_t version() const noexcept { return list_.version; }
  void restart() { world_.restart(host); }
  void follow(const cluster::MemberList& list) {
    list_ = list;
    if (process == nullptr) return;
    REFRACT_CHECK(process->members.take(list).has_value());
    process->owner.directory->follow(process->members);
  }

  struct Process {
    Process(sim::Host& host, const cluster::MemberList& list, const std::string& name, const Options& of,
            const OwnerOptions& options)
        : members(checked(cluster::Members::create(list, name))),
          peers(host.shard(), host.domain()),
          line(of.redis == nullptr ? nullptr : std::make_unique<SimRedisLine>(host.shard(), *of.redis)),
          home(of.redis == nullptr
                   ? nullptr
                   : std::make_unique<RedisHome>(RedisHome::Parts{.line = *line,
                                                                  .shard = host.shard(),
                                                                  .seed = options.identity[0],
                                                                  .silent_after_ns = of.silent_after_ns,
                                                                  .by_shard_clock = true})),
          owner(host.shard(), host.domain(), host.clock(), with(options, peers, home.get())) {
      owner.directory->follow(members);
    }
    static cluster::Members checked(Reported<cluster::Members> members) {
      REFRACT_CHECK(members.has_value());
      return std::move(*members);
    }
    static OwnerOptions with(OwnerOptions options, SimPeers& peers, RedisHome* home) {
      options.peers = &peers;
      options.outside = home;
      return options;
    }
    cluster::Members members;
    SimPeers peers;
    std::unique_ptr<SimRedisLine> line;
    std::unique_ptr<RedisHome> home;
    Owner owner;
  };
  sim::Host& host;
  Process* process = nullptr;

  [[nodiscard]] Directory::Counts counts() const { return process->owner.directory->counts(); }
  [[nodiscard]] bool has(std::string_view id) const {
    return process != nullptr && process->owner.store.find(as_bytes(id)).has_value();
  }

 private:
  void begin_memory() {
    struct alignas(4096) Page {
      std::byte bytes[4096];
    };
    const uint64_t bytes = options_.chunks * kChunkBytes;
    std::vector<Page> pages(bytes / sizeof(Page));
    auto* base = static_cast<std::byte*>(pages.data()->bytes);
    test::format_space(base, 2, options_.chunks, host.clock());
    memories_.push_back(std::make_unique<sim::VisibleMemory>(
        sim::VisibleMemory::Options{.bytes = bytes, .bytes_max = bytes, .seed = memories_.size() + 1},
        std::vector<std::byte>(base, base + 2 * kChunkBytes)));
    host.attach(memories_.back().get());
    identity_ = {world_.prng().next(), world_.prng().next()};
  }
  void start() {
    process = &host.emplace<Process>(host, list_, name_, options_,
                                     OwnerOptions{.base = memories_.back()->owner(),
                                                  .chunks = options_.chunks,
                                                  .log = memories_.back().get(),
                                                  .limit = options_.limit,
                                                  .growth = nullptr,
                                                  .identity = identity_,
                                                  .transfers = options_.transfers,
                                                  .grace_ns = options_.grace_ns});
  }

  const Options options_;
  cluster::MemberList list_;
  sim::World& world_;
  std::string name_;
  std::array<uint64_t, 2> identity_{};
  std::vector<std::unique_ptr<sim::VisibleMemory>> memories_;
};

// A client of one node.
class SimClient final : private rpc::ReplyTaker {
 public:
  SimClient(sim::World& world, std::string_view name, std::string_view node)
      : host(world.add_host(name)),
        world_(world),
        node_(node),
        dispatcher_(host.domain(), host.shard()),
        last_claim_(world.prng().next()) {}

  [[nodiscard]] bool is_open() const {
    return session_ != nullptr && session_->state() == rpc::Session::State::kOpen;
  }
  void try_connect() {
    if (session_ != nullptr && session_->state() != rpc::Session::State::kClosed) return;
    session_.reset();
    const Reported<fabric::Channel*> channel = host.domain().connect(node_);
    if (channel) session_ = std::make_unique<rpc::Session>(**channel, host.shard());
  }
  void connect() {
    REFRACT_CHECK(world_.run_until([&] {
      try_connect();
      return is_open();
    }));
  }
  // 0: not now.
  [[nodiscard]] uint64_t try_start(wire::Method method, std::string_view body) {
    const uint64_t id =
        session_->start({.method = static_cast<uint16_t>(method), .head = as_bytes(body)}, *this, 0);
    if (id != 0) answer_.reset();
    return id;
  }
  // 0: there is no session.
  [[nodiscard]] uint64_t start(wire::Method method, std::string_view body) {
    uint64_t id = 0;
    (void)world_.run_until([&] {
      if (!is_open()) return true;
      if (id == 0) id = try_start(method, body);
      return id != 0;
    });
    return id;
  }
  [[nodiscard]] bool is_done(uint64_t id) const { return id == 0 || answer_.has_value(); }
  // kIndeterminate where no answer came.
  [[nodiscard]] Answer finish(uint64_t id) {
    if (id == 0) return {.code = Code::kUnavailable, .bytes = {}};
    (void)world_.run_until([&] { return answer_.has_value(); });
    return std::move(*answer_);
  }
  [[nodiscard]] Answer call(wire::Method method, std::string_view body) {
    return finish(start(method, body));
  }
  [[nodiscard]] Code put(std::string_view id, std::string_view body) {
    return call(wire::Method::kPut, put_body(id, ++last_claim_, body)).code;
  }
  // The body, or the code's name.
  [[nodiscard]] std::string get(std::string_view id, uint64_t timeout_ns = 0) {
    return body_in(call(wire::Method::kFetch, await_body(id, timeout_ns)));
  }
  [[nodiscard]] static std::string body_in(const Answer& answer) {
    if (answer.code != Code::kOk) return std::string(text(answer.code));
    const auto reply = answer.as<wire::FetchReply>();
    return answer.behind<wire::FetchReply>().substr(0, reply.object.body_bytes);
  }
  [[nodiscard]] Code remove(std::string_view id, uint64_t birth = 0) {
    last_removed = call(wire::Method::kDelete, id_body(id, birth));
    return last_removed.code;
  }
  Answer last_removed;
  sim::Host& host;

 private:
  // Once at a time.
  void on_reply(uint32_t /*place*/, const runtime::OpResult& reply) noexcept override {
    answer_ = Answer{.code = reply.code, .bytes = kv::test::text_of(reply.bytes)};
  }

  sim::World& world_;
  std::string node_;
  fabric::Dispatcher dispatcher_;
  std::unique_ptr<rpc::Session> session_;
  std::optional<Answer> answer_;
  uint64_t last_claim_;
};

// Ids whose home is the named node, by a list of these names.
inline std::string id_at(const cluster::MemberList& list, std::string_view home, int number = 0) {
  const cluster::Routing routing(list);
  const size_t wanted = *list.index_of(home);
  for (int i = 0;; ++i) {
    std::string id = "object" + std::to_string(i);
    uint8_t first = 0;
    (void)routing.nodes_of(cluster::slot_of(id), std::span(&first, 1));
    if (first == wanted && number-- == 0) return id;
  }
}

}  // namespace refract::object::test
