// SPDX-License-Identifier: Apache-2.0
// Objects served over the loopback provider, in one thread and virtual time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/fabric/await.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/kv/testing/test_service.h"
#include "refract/object/testing/test_objects.h"
#include "refract/rpc/session.h"

namespace refract::object::test {

struct ServedOptions {
  uint64_t chunks = 48;
  uint64_t chunks_max = 64;
  uint64_t limit = 8 * kMiB;
  fabric::LoopbackOptions link = {
      .depth = 64, .message_bytes_max = 4096, .one_sided_bytes_min = 512, .reads_bypass_cpu = true};
  size_t notices = ObjectService::kNotices;
  Elsewhere* elsewhere = nullptr;  // Null: it shares its objects with no other node.
};

class Served {
 public:
  explicit Served(const ServedOptions& options = {})
      : options_(options),
        pages_(options.chunks_max * kChunkBytes / sizeof(Page)),
        idler_(clock),
        shard(clock, {.idler = &idler_}) {
    clock.set_now_ns(kSecond_ns);
    format_space(base(), options.chunks, options.chunks_max, clock);
    start();
  }
  ~Served() { stop(); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  // The owner's process ends, and begins again over the same memory. All peers have lost their sessions.
  void stop() {
    if (owner == nullptr) return;
    owner->service->answer_through(nullptr);
    // Sessions first, as a process's end has it: nothing lands any more.
    owner->dispatcher.reset();
    owner->server.reset();
    owner->service.reset();
    owner.reset();
    idler_.forget_domains();
    client_dispatcher_.reset();
    client_domain.reset();
    server_domain.reset();
    hub_.reset();
  }
  void start() {
    hub_ = std::make_unique<fabric::LoopbackHub>();
    client_domain = std::make_unique<fabric::LoopbackDomain>(*hub_, "client", options_.link);
    server_domain = std::make_unique<fabric::LoopbackDomain>(*hub_, "server", options_.link);
    owner = std::make_unique<Owner>(shard, *server_domain, clock,
                                    OwnerOptions{.base = base(),
                                                 .chunks = options_.chunks,
                                                 .log = nullptr,
                                                 .limit = options_.limit,
                                                 .growth = &growth,
                                                 .notices = options_.notices,
                                                 .elsewhere = options_.elsewhere});
    client_dispatcher_ = std::make_unique<fabric::Dispatcher>(*client_domain, shard);
    idler_.watch(*client_domain);
    idler_.watch(*server_domain);
  }
  void add_chunks(uint64_t chunks) {
    owner->heap.add({owner->heap.end()}, chunks * kChunkBytes);
    options_.chunks += chunks;
    owner->service->on_memory_added();
  }

  // A client's session.
  using Peer = std::unique_ptr<rpc::Session>;
  [[nodiscard]] Peer connect() {
    const Reported<fabric::Channel*> channel = client_domain->connect("server");
    REFRACT_CHECK(channel.has_value());
    auto peer = std::make_unique<rpc::Session>(**channel, shard);
    REFRACT_CHECK(run_until([&] { return peer->state() == rpc::Session::State::kOpen; }));
    return peer;
  }
  [[nodiscard]] Answer call(const Peer& peer, wire::Method method, std::string_view body) {
    const runtime::OpResult result =
        peer->call_and_wait({.method = static_cast<uint16_t>(method), .head = as_bytes(body)},
                            shard.refresh_now() + 100 * kSecond_ns);
    return {.code = result.code, .bytes = kv::test::text_of(result.bytes)};
  }
  [[nodiscard]] uint64_t start_call(const Peer& peer, wire::Method method, std::string_view body) {
    const uint64_t id = peer->start({.method = static_cast<uint16_t>(method), .head = as_bytes(body)});
    REFRACT_CHECK(id != 0);
    settle();
    return id;
  }
  [[nodiscard]] Answer finish(const Peer& peer, uint64_t id) {
    REFRACT_CHECK(run_until([&] { return peer->done(id); }));
    const runtime::OpResult result = peer->finish(id);
    return {.code = result.code, .bytes = kv::test::text_of(result.bytes)};
  }
  // The peer's process ends.
  void close(Peer& peer) {
    const size_t sessions = owner->server->session_count();
    peer.reset();
    REFRACT_CHECK(run_until([&] { return owner->server->session_count() < sessions; }));
  }
  // Memory that the owner may READ, until it is taken back.
  [[nodiscard]] wire::Place lend(std::string& bytes) {
    const uint16_t region = next_region_++;
    const Reported<RemoteKey> key =
        client_domain->register_region({.region = region,
                                        .base = reinterpret_cast<std::byte*>(bytes.data()),
                                        .bytes = bytes.size(),
                                        .rights = {.read = true}});
    REFRACT_CHECK(key.has_value());
    return {.address = RemotePointer::at(region, 0).bits, .key = key->bits};
  }
  void take_back(const wire::Place& place) {
    (void)client_domain->revoke_region(RemotePointer{place.address}.region());
  }
  // One request through a window.
  [[nodiscard]] Code one_sided(const Peer& peer, fabric::Op op, const wire::Place& window, uint64_t offset,
                               std::span<std::byte> local) {
    const RemotePointer first{window.address};
    return runtime::block_on(
               shard, fabric::perform(
                          peer->endpoint(), shard,
                          {.op = op,
                           .remote = {.address = RemotePointer::at(first.region(), first.offset() + offset),
                                      .key = {window.key}},
                           .local = {local.data(), local.size()}},
                          shard.refresh_now() + kSecond_ns))
        .code;
  }

  template <typename Done>
  [[nodiscard]] bool run_until(Done&& done) {
    return shard.run_until(done, shard.refresh_now() + 1000 * kSecond_ns);
  }
  // Until everything that was sent has been worked on; time does not move.
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

  // What the owner has of an object, read where it lies.
  [[nodiscard]] std::string object(std::string_view id) {
    const Result<Object> found = owner->store.find(as_bytes(id));
    if (!found) return std::string(text(found.code()));
    return text_at(found->object.plus(ObjectParts::body_at()), found->parts.body_bytes) + "|" +
           text_at(found->object.plus(found->parts.metadata_at()), found->parts.metadata_bytes);
  }
  [[nodiscard]] wire::StatReply stat() { return owner->service->stat(); }
  [[nodiscard]] std::byte* base() noexcept { return static_cast<std::byte*>(pages_.data()->bytes); }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  [[nodiscard]] std::string text_at(Offset at, uint64_t bytes) {
    return {reinterpret_cast<const char*>(base() + at.value), bytes};
  }

  ServedOptions options_;
  std::vector<Page> pages_;

 public:
  ManualClock clock;
  kv::test::ManualGrowth growth;

 private:
  kv::test::JumpingIdler idler_;

 public:
  runtime::Shard shard;

 private:
  std::unique_ptr<fabric::LoopbackHub> hub_;

 public:
  std::unique_ptr<fabric::LoopbackDomain> client_domain;
  std::unique_ptr<fabric::LoopbackDomain> server_domain;
  std::unique_ptr<Owner> owner;

 private:
  std::unique_ptr<fabric::Dispatcher> client_dispatcher_;
  uint16_t next_region_ = fabric::kLentRegionFirst;
};

}  // namespace refract::object::test
