// SPDX-License-Identifier: Apache-2.0
// What a key-value store promises (contract.h), as one test suite over all ways to reach one. A way is a row:
//
//   INSTANTIATE_TEST_SUITE_P(Sim, KvConformance, testing::Values(Store{"sim", make_sim_store}), store_name);
//
// The claims are in conformance_test.cc, the rows in conformance_stores_test.cc.
//
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv {

// One client of an empty store. The calls block.
class StoreFixture {
 public:
  using Bytes = std::span<const std::byte>;

  StoreFixture() = default;
  StoreFixture(const StoreFixture&) = delete;
  StoreFixture& operator=(const StoreFixture&) = delete;
  virtual ~StoreFixture() = default;

  [[nodiscard]] virtual Result<Got> get(Bytes key, ValueSink& sink) {
    return runtime::block_on(shard(), client().get(key, sink));
  }
  // The same where the path has a way of its own that takes no coroutine.
  [[nodiscard]] virtual Result<Got> get_and_wait(Bytes key, ValueSink& sink) {
    return client().get_and_wait(key, sink);
  }
  [[nodiscard]] virtual Result<Got> exists(Bytes key) {
    return runtime::block_on(shard(), client().exists(key));
  }
  [[nodiscard]] virtual Result<uint64_t> put(Bytes key, Bytes value, const RpcPutOptions& options) {
    return runtime::block_on(shard(), client().put(key, value, options));
  }
  virtual void multi_get(std::span<RpcClient::GetItem> items) {
    runtime::block_on(shard(), client().multi_get(items));
  }
  virtual void multi_put(std::span<RpcClient::PutItem> items) {
    runtime::block_on(shard(), client().multi_put(items));
  }
  [[nodiscard]] virtual Result<RpcClient::Page> scan(uint64_t cursor, uint64_t keys_min) {
    return runtime::block_on(shard(), client().scan(cursor, keys_min));
  }

  // The way to the owner, for what has no way of its own; ready for use.
  [[nodiscard]] virtual RpcClient& client() = 0;
  [[nodiscard]] virtual runtime::Shard& shard() = 0;
  // Of the node's wall clock.
  [[nodiscard]] virtual uint64_t wall_ns() = 0;
  virtual void let_pass_ns(uint64_t ns) = 0;
  // How long a message may be: lengths around it are worth trying.
  [[nodiscard]] virtual size_t message_bytes_max() = 0;
  // The owner's own look at its table: nothing contradicts itself, and so many entries are there.
  [[nodiscard]] virtual bool is_sound(uint64_t entries) = 0;
};

struct Store {
  std::string name;  // Of letters and digits: part of the tests' names.
  std::function<std::unique_ptr<StoreFixture>()> make;
};

// For gtest, which would print the bytes of the object.
inline void PrintTo(const Store& store, std::ostream* out) {
  *out << store.name;
}

[[nodiscard]] inline std::string store_name(const testing::TestParamInfo<Store>& store) {
  return store.param.name;
}

class KvConformance : public testing::TestWithParam<Store> {
 protected:
  [[nodiscard]] Result<uint64_t> put(std::string_view key, std::string_view value,
                                     const RpcPutOptions& options = {}) {
    return store->put(test::bytes_of(key), test::bytes_of(value), options);
  }
  [[nodiscard]] Result<uint64_t> erase(std::string_view key, uint64_t if_version = 0) {
    return store->client().erase_and_wait(test::bytes_of(key), if_version);
  }
  struct Read {
    Code code = Code::kOk;
    Got got;
    std::string value;
  };
  [[nodiscard]] Read get(std::string_view key, bool and_wait = false) {
    Read read;
    StringSink sink(read.value);
    const Result<Got> got =
        and_wait ? store->get_and_wait(test::bytes_of(key), sink) : store->get(test::bytes_of(key), sink);
    read.code = got.code();
    if (got) read.got = *got;
    return read;
  }

  [[nodiscard]] size_t body_bytes() { return store->message_bytes_max() - 16; }
  [[nodiscard]] wire::StatReply stat() {
    const Result<wire::StatReply> stat = runtime::block_on(store->shard(), store->client().stat());
    EXPECT_TRUE(stat.has_value());
    return stat ? *stat : wire::StatReply{};
  }
  void expect_nothing_open() {
    const wire::StatReply now = stat();
    EXPECT_EQ(now.views, 0u);
    EXPECT_EQ(now.uploads, 0u);
  }

  std::unique_ptr<StoreFixture> store = GetParam().make();
};

}  // namespace refract::kv
