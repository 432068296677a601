// SPDX-License-Identifier: Apache-2.0
// A store as a shard hosts it. The shard has a table of rows, one for each store, and knows none by name: it
// makes them, has them recover what the space holds, serves their methods and tells what they count.
//
// In this order, each for all stores before the next: make; mark_live; mark_pinned; finish_recovery;
// begin_logging; serve; answer_through; on_region for what memory there is. Then clients come.
//
// Threads: a store is used by its shard's alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/cluster/members.h"
#include "refract/cluster/peers.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/kv/owner/ports.h"
#include "refract/memory/heap.h"
#include "refract/memory/remote_pointer.h"
#include "refract/memory/store_name.h"
#include "refract/memory/uses.h"
#include "refract/memory/writer.h"
#include "refract/node/config/config.h"
#include "refract/node/hosted/store_contents.h"
#include "refract/node/observe/state.h"
#include "refract/node/space/store_space.h"
#include "refract/object/redis/redis_line.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/storage/record.h"

namespace refract::kv {
class Decisions;
class OtherNodes;
}  // namespace refract::kv
namespace refract::node {

// Of a change, key and value together; of a piece of a snapshot.
inline constexpr uint64_t kHostedChangeBytesMax = 32 * kKiB;
inline constexpr uint64_t kHostedPieceBytesMax = kMiB - sizeof(StoreName);

struct HostedChange {
  StoreName store;
  uint64_t stamp = 0;                   // Heap::next_stamp(). Higher than all before.
  std::span<const std::byte> key = {};  // Not empty.
  std::span<const std::byte> value = {};
};

// The log of a node that keeps its data on disk. A store asks room_for(), takes a stamp of the heap, appends,
// and then stores, all in one turn; it answers when the log has confirmed what was appended. append() is the
// first row's.
class HostedLog : public kv::ChangeLog, public kv::PartLog {
 public:
  // REQUIRES: room_for() said kOk since the last append; kHostedChangeBytesMax at most.
  virtual void append_hosted(const HostedChange& change) noexcept = 0;
};

// What a shard gives to its stores. All of it outlives them.
struct HostParts {
  const NodeConfig& config;
  uint32_t shard_index;
  const std::string& name;  // For the log: "shard 2: ".
  runtime::Shard& shard;
  Writer& writer;
  Heap& heap;
  kv::PinSources& pins;  // The heap's: for a store whose sessions pin buffers.
  // A store that was told that memory comes hears on_memory_added or on_growth_refused.
  kv::GrowthSource& growth;
  UseSource& uses;  // What readers of the shared memory have written down.
  fabric::shm::NodePage& page;
  uint64_t bytes_max;                  // Of the space, in its life.
  fabric::Domain* network;             // Of sessions that came over a network. Null: there are none.
  fabric::Domain* bypass;              // Of those whose READs need no CPU of this host. Null: there are none.
  HostedLog* log;                      // Null: nothing is kept on disk.
  kv::Decisions* decisions = nullptr;  // Of the shards with keys, which share them. Null: it has none.

  // The list of nodes, for shards that need it (ShardPlan::knows_members). Null: there is none.
  cluster::Members* members = nullptr;
  // Of the shard of objects, where the node has a list and a cluster secret; null: it shares nothing with
  // other nodes. A store that does has the peers reach the list's members when it is told to answer, and
  // again at each change of the list, of which it has itself called (Members::call_on_change); until then
  // none is connected to.
  cluster::Peers* peers = nullptr;
  // Of that shard: to the Redis that knows what is where. Null: the members do.
  object::RedisLine* redis = nullptr;
  // Of a shard of keys that are shared out among nodes with one secret; null: it asks none of the others.
  kv::OtherNodes* nodes = nullptr;
  // Whether a session that lives is another node's, which has proven the cluster's secret.
  std::function<bool(rpc::SessionId)> is_node = {};
};

// Methods of a store: from this one on, up to the next service's.
struct HostedMethods {
  uint16_t begin;
  rpc::Service* service;
  bool is_sampled = true;  // Its calls are timed and traced with the shard's others.
};

class HostedStore {
 public:
  virtual ~HostedStore() = default;

  // --- Recovery. The heap is told of everything that is in use before any store allocates. ---

  // Between Heap::begin_recovery and end_recovery. `last` is the log's last change, where it is this store's:
  // the memory may lack it. An error is damage, of which damage() tells.
  [[nodiscard]] virtual Result<> mark_live(const storage::Record* last) = 0;
  // Behind mark_live of all stores: what readers hold although the store does not name it any more.
  virtual void mark_pinned() {}
  // Behind end_recovery: what needs the heap. As mark_live.
  [[nodiscard]] virtual Result<> finish_recovery() { return {}; }
  struct Damage {
    Offset at;
    std::string what;
  };
  [[nodiscard]] virtual std::optional<Damage> damage() { return std::nullopt; }
  // Gives up something of less worth than a value of so many bytes, while the memory is filled from a disk.
  [[nodiscard]] virtual bool make_room(uint64_t /*bytes*/) { return false; }
  [[nodiscard]] virtual uint64_t entry_count() const noexcept = 0;

  // --- The disk. A store that keeps nothing there has none of these. ---

  // The first row's, whose records and blocks bear no name; `grow` outlives what is returned.
  [[nodiscard]] virtual std::unique_ptr<StoreFilling> begin_filling(const Grow& /*grow*/) { return nullptr; }
  // The moment is now. REQUIRES: no other one is under way.
  [[nodiscard]] virtual std::unique_ptr<StoreSnapshot> begin_snapshot(
      const StoreSnapshot::Options& /*options*/) {
    return nullptr;
  }

  // The others'.

  // Makes the change again, unless it has that one or a younger one: a log may begin before its snapshot.
  // kNoSpace: nothing was changed, and the same change comes again when there is more memory.
  [[nodiscard]] virtual Code replay(const storage::Record& /*change*/) { return Code::kUnsupported; }
  // Hands out all that it has at this moment, in pieces of kHostedPieceBytesMax at most.
  using TakePiece = std::function<void(std::span<const std::byte>)>;
  virtual void snapshot(const TakePiece& /*take*/) const {}
  // A piece of that, in their order, into the empty store. kNoSpace: as for replay().
  [[nodiscard]] virtual Code restore(std::span<const std::byte> /*piece*/) { return Code::kUnsupported; }

  // Recovered, and filled where there was something to fill it with: from now on changes are logged.
  virtual void begin_logging() {}
  // The log has got on, or has failed. Returns how much there was to do.
  virtual size_t on_log_progress() noexcept { return 0; }

  // --- Serving ---

  // Makes the services and adds what they serve.
  virtual void serve(std::vector<HostedMethods>& methods) = 0;
  virtual void answer_through(rpc::Server* server) noexcept = 0;
  // Memory of the space that is there now, in the order of the space; the heap has it.
  virtual void on_region(Offset /*start*/, uint64_t /*bytes*/) {}
  virtual void on_memory_added() noexcept {}
  virtual void on_growth_refused() noexcept {}

  // --- Telling. Control path. ---

  virtual void add_counters(const observe::AddCounter& add) const = 0;
  // Writes what it has into a state that has nothing of another store's yet but sums.
  virtual void tell(observe::ShardState& /*state*/) const {}
};

using ValueOf = std::optional<std::span<const std::byte>> (*)(const Writer& writer,
                                                              const storage::Record& record) noexcept;

// A row of the table of stores.
struct StoreRow {
  std::string_view name;  // "kv"; 8 bytes at most, and never changes: the space and the disk have it.
  std::unique_ptr<HostedStore> (*make)(const HostParts& parts);
  // The first row's alone. Of a record whose value the log did not copy, the value in the space, while it is
  // there.
  ValueOf value_of = nullptr;
  StoreArea area = {};
};

}  // namespace refract::node
