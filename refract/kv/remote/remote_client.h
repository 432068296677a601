// SPDX-License-Identifier: Apache-2.0
// A table read by one-sided READs of its owner's memory, over a channel that does them without the owner's
// CPU (Capabilities::read_bypasses_target_cpu): the `remote` path. A stopped owner still answers.
//
// A get takes one round trip of three READs where the entry was seen before and not written since, else two
// (remote_search.h). A multi_get reads `batch` keys together, in as many round trips as the slowest of them.
// What READs cannot decide goes to the owner by a call: entries about to expire, long ones, those that change
// all the time, and everything over a channel of another kind. counts() tells how often, and why; the
// location cache counts for itself.
//
// Outcomes, deadlines, keys and sinks are those of RpcClient. Writes, scans and all else are RpcClient's.
// Nothing allocates after warm-up. The tasks use the client: drop them first. A few gets that end before
// their READs do are tolerated; more of them close the session, since READs that no operation waits for may
// still land.
//
// Threads: used only by its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/calls/attached_client.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/kv/layout/table_geometry.h"
#include "refract/kv/remote/remote_link.h"
#include "refract/kv/remote/remote_search.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class RemoteClient final : public AttachedClient {
 public:
  // Both outlive the client. `rpc` is the way to the owner, over the same session.
  RemoteClient(RpcClient& rpc, runtime::Shard& shard, const RemoteClientOptions& options = {});
  RemoteClient(const RemoteClient&) = delete;
  RemoteClient& operator=(const RemoteClient&) = delete;
  ~RemoteClient() override;

  [[nodiscard]] runtime::Task<Result<Got>> get(HashedKey key, ValueSink& sink, uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Result<Got>> exists(HashedKey key, uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<> multi_get(std::span<RpcClient::GetItem> items, uint64_t deadline_ns = 0);

  // The blocking form: it drives the shard. REQUIRES: not called from inside a poll, hence from no task.
  [[nodiscard]] Result<Got> get_and_wait(const HashedKey& key, ValueSink& sink, uint64_t deadline_ns = 0);

  // attach() learns where the owner's memory lies. kUnsupported: it cannot be read so.
  [[nodiscard]] const RemoteCounts& counts() const noexcept { return link_.counts; }
  [[nodiscard]] const LocationCache& locations() const noexcept { return link_.locations; }

 private:
  // Keys that are read together, in memory that is used again.
  struct Item;
  struct Work;
  class Held;

  [[nodiscard]] bool may_read() const noexcept;
  void count_call(WhyCalled why) noexcept { ++link_.counts.called[static_cast<size_t>(why)]; }

  [[nodiscard]] std::unique_ptr<Work> take_work();
  void give_back(std::unique_ptr<Work> work);
  void take_back_lost();

  [[nodiscard]] runtime::Task<Code> learn(uint64_t deadline_ns) override;
  [[nodiscard]] runtime::Task<Code> learn_regions(uint64_t deadline_ns);
  [[nodiscard]] Code take_regions(std::span<const std::byte> reply, RemoteSpace& space,
                                  const OwnerClock::Answer& when);
  [[nodiscard]] runtime::Task<Code> read_root(uint64_t deadline_ns);
  [[nodiscard]] Code take_root(std::span<const std::byte, TableGeometry::kFrontBytes> front);

  [[nodiscard]] runtime::Task<Code> read_one(Work& work, const HashedKey& key, ValueSink* sink,
                                             uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> read_all(Work& work, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<> read_together(std::span<RpcClient::GetItem> items, uint64_t deadline_ns);
  void add(Work& work, const RemoteSearch::Wanted& wanted, ValueSink* sink);
  void plan(Work& work);
  void take(Work& work);
  void begin_again(Work& work);
  void settle(Item& item);
  void give_up(Work& work, Code code);

  RemoteLink link_;
  std::vector<std::unique_ptr<Work>> free_;
  std::vector<std::unique_ptr<Work>> lost_;  // READs may still land there, while the channel of then is open.
  uint64_t lost_opened_ns_ = 0;
};

}  // namespace refract::kv
