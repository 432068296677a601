// SPDX-License-Identifier: Apache-2.0
// The operations of client.h as coroutines on one runtime shard, behind both public forms: AsyncClient hands
// them on, and the blocking Client takes shorter ways and comes here when they do not lead anywhere.
//
// Keys, values and targets live until the operation has ended.
//
// Threads: used only by its shard. It goes after all its operations, and not in the turn in which one of them
// ended.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "refract/client/answers.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"
#include "refract/client/link/settings.h"
#include "refract/client/numbered/operation.h"
#include "refract/client/paths/peers.h"
#include "refract/client/use_notes.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::txn {
struct Effort;
}

namespace refract::client {

class NumberedShard;
class Write;

class AsyncCalls {
 public:
  // Of settings that outlive it; not connected until its first operation, or peers().establish().
  AsyncCalls(runtime::Shard& shard, const Settings& settings);
  // The same of settings of its own.
  AsyncCalls(runtime::Shard& shard, std::unique_ptr<const Settings> settings);
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;
  ~AsyncCalls();

  [[nodiscard]] runtime::Task<Result<View>> view(KeyOwner place);
  [[nodiscard]] runtime::Task<Result<Got>> exists(KeyOwner place);
  [[nodiscard]] runtime::Task<Result<ScanPage>> scan(uint64_t cursor, size_t keys_min = 128);
  // `begun_ns`: when an attempt began that surely did nothing; 0: there was none.
  [[nodiscard]] runtime::Task<Result<uint64_t>> put(Bytes key, Bytes value, PutOptions options,
                                                    uint64_t begun_ns = 0);
  [[nodiscard]] runtime::Task<Result<uint64_t>> erase(Bytes key, uint64_t if_version = 0,
                                                      RequestId request = {});
  // Of a key whose node was never reached.
  [[nodiscard]] runtime::Task<Operated> operate_slowly(Bytes key, KeyOperation operation);
  // Of one that keeps a time to live and is too long for a message. `begun_ns`: since when its time runs.
  [[nodiscard]] runtime::Task<Operated> operate_on_version(Bytes key, KeyOperation operation,
                                                           uint64_t begun_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> clear();
  [[nodiscard]] runtime::Task<Result<>> commit(Batch& batch, RequestId request = {});
  // Its keys are the caller's. An identity is drawn where the batch writes. `effort` counts its refusals.
  [[nodiscard]] runtime::Task<Result<>> change(kv::RpcBatch& batch, txn::Effort& effort,
                                               RequestId request = {});
  [[nodiscard]] runtime::Task<Result<>> transaction(AsyncClient::Body body, TransactionOptions options,
                                                    bool is_read_only);
  // kConflict: what was read did not stand together. `deadline_ns`: of what owners are asked, where that is
  // before the client's own timeout.
  [[nodiscard]] runtime::Task<Result<>> validate(const txn::Changes& changes, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<>> commit(const txn::Changes& changes, txn::Effort& effort);
  // Reads all that was read again, while the owners hold it, and has it known, where it stood together.
  [[nodiscard]] runtime::Task<> hold_reads(txn::Changes& changes, txn::Effort& effort, uint64_t deadline_ns);
  // All shards at once, each at its own pace.
  [[nodiscard]] runtime::Task<> multi_get(std::span<GetItem> items);
  [[nodiscard]] runtime::Task<> multi_get_into(std::span<GetIntoItem> items);
  [[nodiscard]] runtime::Task<> multi_put(std::span<PutItem> items);
  [[nodiscard]] runtime::Task<> multi_exists(std::span<ExistsItem> items);
  [[nodiscard]] runtime::Task<Result<size_t>> prefix_exists(std::span<const Bytes> keys);
  [[nodiscard]] runtime::Task<Result<NodeStat>> stat();
  [[nodiscard]] runtime::Task<Result<Pong>> ping();               // The node's first shard.
  [[nodiscard]] runtime::Task<Result<ClusterMembers>> members();  // Likewise.

  [[nodiscard]] RequestId new_request() noexcept { return peers_.new_request(); }
  [[nodiscard]] Route route() const;
  [[nodiscard]] const Report& trouble() const noexcept { return peers_.trouble(); }
  [[nodiscard]] uint64_t messages_sent() const noexcept { return peers_.messages_sent(); }

  // For shorter ways.
  [[nodiscard]] Peers& peers() noexcept { return peers_; }
  [[nodiscard]] const Peers& peers() const noexcept { return peers_; }
  // The numbered writes of the shard with this number.
  [[nodiscard]] NumberedShard& numbered(uint32_t number);
  // kInvalidated, kCorrupt: go on with get_slowly.
  [[nodiscard]] Code get_directly(const KeyOwner& place, const Room& room, Got& got);
  [[nodiscard]] Code look_directly(const KeyOwner& place, Got& got);
  // The same of a view.
  [[nodiscard]] Result<View> view_by_loads(const KeyOwner& place);
  // `begun_ns`: when an attempt began that has failed already; 0: there was none.
  [[nodiscard]] runtime::Task<Result<Got>> get_slowly(KeyOwner place, Room room, uint64_t begun_ns = 0);
  // What view_at_once() does not settle. REQUIRES: the connection has a reader. kInvalidated, kCorrupt: try
  // view().
  [[nodiscard]] static Code view_directly(Connection& connection, const kv::HashedKey& key, View& view);
  // The common case of it, inline. False: call the other.
  [[nodiscard, gnu::always_inline]] static bool view_at_once(Connection::Reader& reader,
                                                             Connection& connection, Bytes key, uint64_t hash,
                                                             View& view) noexcept {
    kv::Found found;
    const OwnRoom room{&view};
    if (!reader.get_at_once(key, hash, room, found)) return pin_at_once(reader, connection, key, hash, view);
    view.size_ = found.value_bytes;
    view.version_ = found.version;
    return true;
  }
  // The rest of a put that was begun, perhaps.
  [[nodiscard]] runtime::Task<Result<uint64_t>> put_on(KeyOwner place, Bytes value, PutOptions options,
                                                       Write& write, uint64_t begun_ns = 0);
  // Those of several keys whose shards answer directly; the others are left to `rest`, as indices.
  void get_directly(std::span<GetItem> items, std::vector<uint32_t>& rest);
  void get_directly(std::span<GetIntoItem> items, std::vector<uint32_t>& rest);
  [[nodiscard]] runtime::Task<> get_by_calls(std::span<GetItem> items, std::span<const uint32_t> which);
  [[nodiscard]] runtime::Task<> get_by_calls(std::span<GetIntoItem> items, std::span<const uint32_t> which);
  [[nodiscard]] runtime::Task<> look_by_calls(std::span<ExistsItem> items, std::span<const uint32_t> which);

 private:
  template <typename Item>
  struct ShardGets;
  struct ShardPuts;
  struct Looks;
  // Inside a view, for a value that is short enough.
  struct OwnRoom {
    View* view;
    std::byte* operator()(uint64_t bytes) const noexcept {
      return bytes <= View::kOwnBytes ? view->own_.data() : nullptr;
    }
  };
  struct CopyRoom;
  [[nodiscard]] static bool pin_at_once(Connection::Reader& reader, Connection& connection, Bytes key,
                                        uint64_t hash, View& view) noexcept;
  static void hold(View& view, Connection& connection, const Connection::Reader::Pinned& pinned) noexcept;

  void note_read(Connection& connection, Bytes key) noexcept {
    if (++noted_reads_ >= notes_.due()) [[unlikely]]
      notes_.note(connection, key, noted_reads_);
  }
  [[nodiscard]] Connection* reading_at(const KeyOwner& place, Code& code);
  template <typename Readers, typename Item>
  class StagedGets;
  template <typename Item>
  void read_directly(std::span<Item> items, std::vector<uint32_t>& rest);
  // The same where keys are routed by their slots, and there are several shards.
  template <typename Item>
  [[gnu::noinline]] void read_by_slot(std::span<Item> items, std::vector<uint32_t>& rest);
  template <typename Item>
  [[nodiscard]] runtime::Task<> read_many(std::span<Item> items);
  template <typename Item>
  [[nodiscard]] runtime::Task<> ask_shards(std::span<Item> items, std::span<const uint32_t> which);
  // All at once.
  template <typename Job>
  [[nodiscard]] runtime::Task<> run(std::vector<Job>& jobs, runtime::Task<> (AsyncCalls::*work)(Job&));
  [[nodiscard]] runtime::Task<Result<>> ask_owners(kv::RpcBatch& batch, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<>> change_over_shards(kv::RpcBatch& batch, txn::Effort& effort);
  template <typename Item>
  [[nodiscard]] runtime::Task<> get_of_shard(ShardGets<Item>& job);
  [[nodiscard]] runtime::Task<> put_of_shard(ShardPuts& job);
  [[nodiscard]] runtime::Task<> look_in_turn(Looks& looks);

  std::unique_ptr<const Settings> own_settings_;
  Peers peers_;
  std::vector<std::unique_ptr<NumberedShard>> numbered_;  // Those that were needed.
  uint64_t reads_ = 0;
  UseNotes notes_;
  uint64_t noted_reads_ = 0;
  std::array<Connection::Reader::Ahead, 32> aheads_;  // Of the call that reads now.
};

}  // namespace refract::client
