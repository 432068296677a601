// SPDX-License-Identifier: Apache-2.0
// A store of a design, served and connected, for tests: over the loopback provider, in virtual time, with
// everything counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/wrap/count.h"
#include "refract/kv/designs/designs.h"
#include "refract/kv/testing/test_service.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"

namespace refract::kv::designs {

// Zeroes on a cache line's border.
class TestMemory {
 public:
  explicit TestMemory(uint64_t bytes) : lines_((bytes + 63) / 64) {}
  [[nodiscard]] std::span<std::byte> bytes() noexcept {
    return {lines_.front().bytes, lines_.size() * sizeof(Line)};
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

// What a blocking caller of a client needs; `Store` has shard() and client().
template <typename Store>
class BlockingStore {
 public:
  struct Read {
    Code code = Code::kOk;
    std::string value;
  };
  [[nodiscard]] Read get(std::string_view key, uint64_t deadline_ns = 0) {
    Read read;
    StringSink sink(read.value);
    const Result<uint64_t> got =
        runtime::block_on(self().shard(), self().client().get(test::bytes_of(key), sink, deadline_ns));
    read.code = got.code();
    REFRACT_CHECK(!got || *got == read.value.size());
    return read;
  }
  [[nodiscard]] Code put(std::string_view key, std::string_view value) {
    return runtime::block_on(self().shard(),
                             self().client().put(test::bytes_of(key), test::bytes_of(value), 0))
        .code();
  }
  [[nodiscard]] Code erase(std::string_view key) {
    return runtime::block_on(self().shard(), self().client().erase(test::bytes_of(key), 0)).code();
  }
  [[nodiscard]] Code settle() { return runtime::block_on(self().shard(), self().client().settle(0)).code(); }

 private:
  friend Store;
  BlockingStore() = default;
  [[nodiscard]] Store& self() noexcept { return static_cast<Store&>(*this); }
};

// How much of everything there is to carry operations; a smaller one is made faster.
struct LoopbackSizes {
  fabric::LoopbackOptions link = {.depth = 32, .message_bytes_max = 32 * 1024};
  size_t ops_max = runtime::ShardOptions{}.ops_max;
};

class LoopbackStore final : public BlockingStore<LoopbackStore> {
 public:
  LoopbackStore(const Design& design, const Capacity& capacity, StoreLog* log = nullptr,
                const LoopbackSizes& sizes = {})
      : memory_(design.memory_bytes(capacity)),
        shard_(clock_, {.ops_max = sizes.ops_max, .idler = &idler_}),
        server_domain_(hub_, "server", sizes.link),
        client_inner_(hub_, "client", sizes.link),
        client_domain_(client_inner_),
        server_(design
                    .make_server({.shard = shard_,
                                  .domain = server_domain_,
                                  .memory = memory_.bytes(),
                                  .capacity = capacity,
                                  .hash_seed = 7,
                                  .log = log})
                    .value()),
        rpc_server_(server_->service(), shard_),
        server_dispatcher_(server_domain_, shard_, &rpc_server_),
        client_dispatcher_(client_domain_, shard_) {
    server_->answer_through(&rpc_server_);
    idler_.watch(server_domain_);
    idler_.watch(client_domain_);
    peers_.push_back(connect(design));
  }

  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] Client& client() noexcept { return *peers_.front().client; }
  [[nodiscard]] Server& server() noexcept { return *server_; }
  [[nodiscard]] std::span<std::byte> memory() noexcept { return memory_.bytes(); }
  // Of the client's side, since the last look.
  [[nodiscard]] fabric::FabricCounts take_counts() noexcept {
    const fabric::FabricCounts counts = client_domain_.counts();
    client_domain_.reset_counts();
    return counts;
  }

  struct Peer {
    std::unique_ptr<Client> client;
    std::unique_ptr<rpc::Session> session;
  };
  [[nodiscard]] Peer connect(const Design& design) {
    Peer peer;
    const Reported<fabric::Channel*> channel = client_domain_.connect("server");
    REFRACT_CHECK(channel.has_value());
    peer.session = std::make_unique<rpc::Session>(**channel, shard_);
    REFRACT_CHECK(shard_.run_until([&] { return peer.session->state() == rpc::Session::State::kOpen; },
                                   shard_.refresh_now() + kSecond_ns));
    peer.client = design.make_client({.session = *peer.session, .shard = shard_});
    REFRACT_CHECK(runtime::block_on(shard_, peer.client->attach(0)).has_value());
    return peer;
  }

 private:
  TestMemory memory_;
  ManualClock clock_;
  test::JumpingIdler idler_{clock_};
  runtime::Shard shard_;
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain server_domain_;
  fabric::LoopbackDomain client_inner_;
  fabric::CountDomain client_domain_;
  std::unique_ptr<Server> server_;
  rpc::Server rpc_server_;
  fabric::Dispatcher server_dispatcher_;
  fabric::Dispatcher client_dispatcher_;
  std::vector<Peer> peers_;
};

}  // namespace refract::kv::designs
