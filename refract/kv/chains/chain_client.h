// SPDX-License-Identifier: Apache-2.0
// A table reached by chains, which its owner's software NIC executes: the `chain` path. Gets take one round
// trip where the entry's slot was seen before, else two; replacing a value likewise (chain_search.h,
// chain_put.h). Everything that chains cannot do, or not without the owner's judgement, goes to the owner by
// a call: inserts, erasures, conditions on absence, times to live, identities, values beyond a message,
// entries that may have expired, a full heap, and whatever the owner refuses. counts() tells how often, and
// why.
//
// Outcomes, deadlines, keys, values and sinks are those of RpcClient. A put whose chain got no answer is
// kIndeterminate. Nothing allocates after warm-up.
//
// Threads: used only by its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/calls/attached_client.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/chains/chain_link.h"
#include "refract/kv/chains/chain_put.h"
#include "refract/kv/chains/chain_search.h"
#include "refract/kv/layout/chain_region.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/prism/client.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

struct ChainClientOptions {
  uint64_t timeout_ns = 5 * kSecond_ns;
  // How many entries' places are remembered, 40 bytes each; 0: none, so that every get takes two round trips.
  size_t slots = 4096;
  size_t pipeline = 16;  // Chains that a multi_get or multi_put has under way at once.
  // For tests of what the compared stamp is needed for.
  bool compares_stamp = true;
};

class ChainClient final : public AttachedClient {
 public:
  // Both outlive the client. `rpc` is the way to the owner, over the same session.
  ChainClient(RpcClient& rpc, runtime::Shard& shard, const ChainClientOptions& options = {});
  ChainClient(const ChainClient&) = delete;
  ChainClient& operator=(const ChainClient&) = delete;
  ~ChainClient() override = default;

  [[nodiscard]] runtime::Task<Result<Got>> get(HashedKey key, ValueSink& sink, uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Result<Got>> exists(HashedKey key, uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put(HashedKey key, std::span<const std::byte> value,
                                                    RpcPutOptions options = {}, uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<> multi_get(std::span<RpcClient::GetItem> items, uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<> multi_put(std::span<RpcClient::PutItem> items, uint64_t deadline_ns = 0);

  // Blocking forms: they drive the shard. REQUIRES: not called from inside a poll, hence from no task.
  [[nodiscard]] Result<Got> get_and_wait(const HashedKey& key, ValueSink& sink, uint64_t deadline_ns = 0);
  [[nodiscard]] Result<uint64_t> put_and_wait(const HashedKey& key, std::span<const std::byte> value,
                                              const RpcPutOptions& options = {}, uint64_t deadline_ns = 0);

  // attach() gets the key to the owner's region. kUnsupported, kNotFound: the owner offers none.
  [[nodiscard]] bool may_write() const noexcept {
    return attached() == Code::kOk && link_.rights.cover(kChainWriteRights.bits);
  }

  [[nodiscard]] const ChainCounts& counts() const noexcept { return link_.counts; }

 private:
  // A chain's bytes, in memory that is used again.
  class Message;
  // Many keys: chain_client_many.cc.
  template <typename Machine, typename Item>
  class Batch;
  class GetBatch;
  class PutBatch;
  template <typename Item>
  struct Job;

  // Whether the operation ends with the code of its chain: its outcome is unknown. Every other
  // code says that the chain was refused as a whole.
  [[nodiscard]] static bool ends_with(Code code) noexcept {
    return is_lost(code) || code == Code::kMalformed;
  }
  [[nodiscard]] uint64_t hash(const HashedKey& key) const noexcept;

  [[nodiscard]] runtime::Task<Code> learn(uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Code> attach_with(prism::ChainRights rights, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> read_geometry(uint64_t deadline_ns);

  // Whether the reply belongs to what was asked, in the same memory.
  template <typename Machine>
  [[nodiscard]] auto take(Machine& machine, const Result<prism::Reply>& reply, uint64_t epoch) noexcept;
  // Takes the machine to its end, or to a code that ends the operation.
  template <typename Machine>
  [[nodiscard]] runtime::Task<Code> run(Machine& machine, typename Machine::State& state,
                                        uint64_t deadline_ns);
  template <typename Machine>
  [[nodiscard]] Code run_and_wait(Machine& machine, typename Machine::State& state, uint64_t deadline_ns);

  [[nodiscard]] ChainPut put_of(const HashedKey& key, std::span<const std::byte> value,
                                const RpcPutOptions& options) noexcept;
  [[nodiscard]] std::optional<ByRpc> needs_owner(const ChainPut& put,
                                                 const RpcPutOptions& options) const noexcept;
  [[nodiscard]] Result<Got> end_get(const ChainSearch& search, ChainSearch::State state,
                                    ValueSink* sink) noexcept;
  [[nodiscard]] Result<uint64_t> end_put(const ChainPut& put) noexcept;
  void count_by_rpc(ByRpc why) noexcept { ++link_.counts.by_rpc[static_cast<size_t>(why)]; }
  [[nodiscard]] runtime::Task<Result<Got>> again(RpcClient::GetItem& item, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> again(RpcClient::PutItem& item, uint64_t deadline_ns);
  template <typename Item>
  [[nodiscard]] runtime::Task<> run_items(Job<Item>& job);
  template <typename TheBatch, typename Item>
  [[nodiscard]] runtime::Task<> run_many(std::span<Item> items, uint64_t deadline_ns);

  prism::Client chains_;
  ChainClientOptions options_;
  ChainLink link_;
  std::vector<std::vector<std::byte>> free_messages_;
  uint64_t epoch_ = 0;  // Grows when what is known of the table begins again.
};

}  // namespace refract::kv
