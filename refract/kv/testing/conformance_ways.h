// SPDX-License-Identifier: Apache-2.0
// Rows of the suite of conformance.h that stand beside another one: the same store by chains, and by READs of
// its memory. And the clock of rows whose time cannot be moved.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "refract/base/clock.h"
#include "refract/kv/chains/chain_client.h"
#include "refract/kv/remote/remote_client.h"
#include "refract/kv/testing/conformance.h"

namespace refract::kv {

// The system's time, and some more.
class ShiftedClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override { return system_clock().now_ns() + shift_ns; }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return system_clock().wall_ns() + shift_ns; }
  [[nodiscard]] uint64_t boot_ns() const noexcept override { return system_clock().boot_ns() + shift_ns; }
  uint64_t shift_ns = 0;
};

// Another way to a store that stands already.
class OtherWay : public StoreFixture {
 public:
  explicit OtherWay(std::unique_ptr<StoreFixture> owner) : owner_(std::move(owner)) {}

  [[nodiscard]] RpcClient& client() final { return owner_->client(); }
  [[nodiscard]] runtime::Shard& shard() final { return owner_->shard(); }
  [[nodiscard]] uint64_t wall_ns() override { return owner_->wall_ns(); }
  void let_pass_ns(uint64_t ns) override { owner_->let_pass_ns(ns); }
  [[nodiscard]] size_t message_bytes_max() override { return owner_->message_bytes_max(); }
  [[nodiscard]] bool is_sound(uint64_t entries) override { return owner_->is_sound(entries); }

 private:
  std::unique_ptr<StoreFixture> owner_;
};

// Chains over any of these, at which what the owner alone can do still arrives.
class ChainStore final : public OtherWay {
 public:
  explicit ChainStore(std::unique_ptr<StoreFixture> owner)
      : OtherWay(std::move(owner)), chains_(client(), shard()) {}
  ChainStore(const ChainStore&) = delete;
  ChainStore& operator=(const ChainStore&) = delete;
  // Such a row would show nothing.
  ~ChainStore() override { EXPECT_EQ(chains_.counts().by_rpc[static_cast<size_t>(ByRpc::kNotAttached)], 0u); }

  [[nodiscard]] Result<Got> get(Bytes key, ValueSink& sink) override {
    return runtime::block_on(shard(), chains_.get(key, sink));
  }
  [[nodiscard]] Result<Got> get_and_wait(Bytes key, ValueSink& sink) override {
    return chains_.get_and_wait(key, sink);
  }
  [[nodiscard]] Result<Got> exists(Bytes key) override {
    return runtime::block_on(shard(), chains_.exists(key));
  }
  [[nodiscard]] Result<uint64_t> put(Bytes key, Bytes value, const RpcPutOptions& options) override {
    // Both forms, in turns.
    if (++puts_ % 2 == 0) return chains_.put_and_wait(key, value, options);
    return runtime::block_on(shard(), chains_.put(key, value, options));
  }
  void multi_get(std::span<RpcClient::GetItem> items) override {
    runtime::block_on(shard(), chains_.multi_get(items));
  }
  void multi_put(std::span<RpcClient::PutItem> items) override {
    runtime::block_on(shard(), chains_.multi_put(items));
  }

 private:
  ChainClient chains_;
  uint64_t puts_ = 0;
};

// READs of the owner's memory, at which everything else still arrives.
class RemoteStore final : public OtherWay {
 public:
  RemoteStore(std::unique_ptr<StoreFixture> owner, const RemoteClientOptions& options)
      : OtherWay(std::move(owner)), remote_(client(), shard(), options) {}
  RemoteStore(const RemoteStore&) = delete;
  RemoteStore& operator=(const RemoteStore&) = delete;
  // Such a row would show nothing.
  ~RemoteStore() override {
    EXPECT_EQ(remote_.counts().called[static_cast<size_t>(WhyCalled::kNotAttached)], 0u);
  }

  [[nodiscard]] Result<Got> get(Bytes key, ValueSink& sink) override {
    return runtime::block_on(shard(), remote_.get(key, sink));
  }
  [[nodiscard]] Result<Got> get_and_wait(Bytes key, ValueSink& sink) override {
    return remote_.get_and_wait(key, sink);
  }
  [[nodiscard]] Result<Got> exists(Bytes key) override {
    return runtime::block_on(shard(), remote_.exists(key));
  }
  void multi_get(std::span<RpcClient::GetItem> items) override {
    runtime::block_on(shard(), remote_.multi_get(items));
  }

 private:
  RemoteClient remote_;
};

}  // namespace refract::kv
