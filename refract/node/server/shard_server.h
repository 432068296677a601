// SPDX-License-Identifier: Apache-2.0
// One shard of a server: its part of the store, everything that serves it, and the loop that does.
//
// Made by any thread of the server process, then opened and run by the thread whose shard it is. Never
// destroyed: the process ends with _exit, and everything it leaves is what a crash would leave.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refract/cluster/members.h"
#include "refract/cluster/members_service.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/verbs/domain.h"
#include "refract/kv/owner/parts/decisions.h"
#include "refract/kv/owner/ports.h"
#include "refract/memory/copy_team.h"
#include "refract/memory/heap.h"
#include "refract/memory/store_time.h"
#include "refract/memory/writer.h"
#include "refract/node/config/config.h"
#include "refract/node/durable/data_folder.h"
#include "refract/node/durable/shard_storage.h"
#include "refract/node/hosted/shard_plan.h"
#include "refract/node/observe/service.h"
#include "refract/node/peers/node_peers.h"
#include "refract/node/peers/shard_lines.h"
#include "refract/node/redis/node_redis.h"
#include "refract/node/server/link.h"
#include "refract/node/space/store_space.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/runtime/shard.h"

namespace refract::node {

// What a server, or a shard's thread of it, ends with.
inline constexpr int kExitFailed = 1;
inline constexpr int kExitDamaged = 3;
// What was asked for cannot be, so that the next server would fare alike.
inline constexpr int kExitRefused = 4;

// Of each shard, beyond clients.max: for the node role alone, and more than a list has members.
inline constexpr uint32_t kConnectionsOfNodes = 256;

// Writes what went wrong, and what to do, to the log. Returns kExitFailed.
int fail_with(const Report& report);

struct ShardBirth {
  const NodeConfig& config;  // All outlive the process.
  const ShardPlan& plan;
  StoreSpace& space;
  fabric::shm::Meeting& meeting;
  LinkEnd link;
  const cluster::Members* members = nullptr;            // Null: this shard has no list of nodes.
  const fabric::tcp::Secret* cluster_secret = nullptr;  // Null: it reaches none of them.
  const fabric::tcp::Secret* redis_secret = nullptr;    // Null: the directory's Redis asks for none.
  DataFolder* data = nullptr;                           // Null: nothing is kept on disk.
  kv::Decisions* decisions = nullptr;                   // Of the shards with keys. Null: it has none.
  FillTogether* together = nullptr;                     // Of those, where their memories are new.
  LogStands* stands = nullptr;                          // Of those, where they have logs.
};

class ShardServer final : public runtime::Poller, public kv::GrowthSource {
 public:
  explicit ShardServer(ShardBirth birth);
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;
  ~ShardServer() override;

  // Before open(): the shard also serves what this domain is handed.
  void serve_tcp(std::unique_ptr<fabric::tcp::ServerDomain> domain) noexcept { tcp_ = std::move(domain); }

  // Adopts the clients and recovers the store. 0, or the code to end with.
  [[nodiscard]] int open();
  // Serves until the keeper's end. REQUIRES: open() returned 0.
  [[nodiscard]] int run();

  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return read_link() == 0; }
  [[nodiscard]] std::string_view name() const noexcept override { return "keeper link"; }

  [[nodiscard]] bool can_grow(uint64_t bytes) const noexcept override;
  void want(uint64_t bytes) noexcept override;

 private:
  // Over tcp_, where there is a device that shall be used. A device that is named must work.
  [[nodiscard]] Reported<> open_rdma();
  [[nodiscard]] int open_store();
  void make_stores();
  // Whether each store that has something in the space is hosted.
  [[nodiscard]] Reported<> check_stores() const;
  // `last`: the log's last change, which the memory may lack.
  [[nodiscard]] int recover(const storage::Record* last);
  [[nodiscard]] bool recover_stores(const storage::Record* last);
  [[nodiscard]] bool wrote(size_t row, const storage::Record& record) const noexcept;
  [[nodiscard]] int recover_with_log();
  // Waits for the keeper; false: the heap will not become larger.
  [[nodiscard]] bool grow_now(uint64_t value_bytes);
  void grow_ahead(uint64_t bytes);
  [[nodiscard]] bool make_room(uint64_t value_bytes);
  [[nodiscard]] uint64_t entry_count() const noexcept;
  size_t on_log_progress() noexcept;
  // Where sessions of other hosts come from; null: none do.
  [[nodiscard]] fabric::Domain* network() noexcept;
  void note_recovery(const char* source, uint64_t begun_ns);
  void add_log_counters(const observe::AddCounter& add) const;
  void make_services();
  // Calls of this service are timed and traced.
  [[nodiscard]] rpc::Service& behind_door(rpc::Service& service);
  [[nodiscard]] observe::Service::Parts observed();
  [[nodiscard]] std::function<uint64_t()> snapshot_asker();
  void add_counters(const observe::AddCounter& add) const;
  void add_rdma_counters(const observe::AddCounter& add) const;
  [[nodiscard]] observe::Peer peer_of(const fabric::Channel& channel) const;
  void adopt(const fabric::shm::Attachment& attachment);
  void serve(uint16_t region, uint64_t base, uint64_t bytes, RemoteKey key);
  // Clients that the keeper has let in, from then on they may pin.
  void adopt_waiting();
  // All that the keeper has said.
  size_t take_waiting();
  size_t read_link();
  void take(const LinkEnd::Received& received);
  void map(const LinkMessage& message, int descriptor);
  void make_members();
  [[nodiscard]] HostParts host_parts();
  // The socket by which a channel came, or was introduced. Null: it came by shared memory.
  [[nodiscard]] const fabric::Channel* socket_of(const fabric::Channel& channel) const noexcept;
  [[nodiscard]] bool is_node(rpc::SessionId session) const noexcept;
  void take_members(int descriptor);

  // What local clients have pinned, those among them that have just come: the keeper tells the server of a
  // client before the client has the memory in which it announces its pins.
  class LocalPins final : public PinSource {
   public:
    explicit LocalPins(ShardServer& server) noexcept : server_(server) {}
    void collect(PinSet& pins) noexcept override;

   private:
    ShardServer& server_;
  };

  // In the order in which they must be made.
  ShardBirth birth_;
  const std::string& name_;  // For the log.
  StoreClock clock_;
  runtime::Shard shard_;
  Writer writer_;
  LocalPins local_pins_{*this};
  kv::PinSources pins_;
  std::optional<CopyTeam> copies_;  // Of what the domain READs. Nothing: its thread copies alone.
  std::unique_ptr<fabric::shm::ServerDomain> domain_;
  std::unique_ptr<fabric::tcp::ServerDomain> tcp_;     // Null: the node does not listen.
  std::unique_ptr<fabric::verbs::ServerDomain> rdma_;  // Over tcp_. Null: no client comes by RDMA.
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<ShardStorage> storage_;  // Where something is kept on disk.
  std::vector<std::unique_ptr<HostedStore>> stores_;
  observe::RecoveryStatus recovery_;
  std::optional<cluster::Members> members_;
  std::optional<cluster::MembersService> members_service_;  // The first shard's.
  std::optional<NodePeers> peers_;                          // That of objects'.
  std::optional<ShardLines> lines_;                         // Those of keys that other nodes have, too.
  std::optional<NodeRedis> redis_;                          // Likewise, where a Redis has the directory.
  std::unique_ptr<observe::Service> observe_;
  std::vector<std::unique_ptr<observe::FrontDoor>> doors_;
  std::unique_ptr<rpc::ServiceTable> services_;  // Null: the stores are being recovered or filled.
  std::unique_ptr<rpc::Server> rpc_;
  std::unique_ptr<fabric::Dispatcher> dispatcher_;
  std::unique_ptr<fabric::Dispatcher> far_dispatcher_;  // Of clients that came over a network.
  struct Owner {
    uint32_t process = 0;
    uint32_t user = 0;
  };
  std::unordered_map<uint64_t, Owner> owners_;  // Of local connections.
  std::deque<LinkEnd::Received> unread_;        // What came before a client that was adopted out of turn.
  bool has_ended_ = false;                      // The keeper's end of the link.
  uint64_t polls_ = 0;
  bool asked_ = false;
  uint64_t refused_until_ns_ = 0;  // As much as this, or more.
  uint64_t refused_bytes_ = 0;
};

}  // namespace refract::node
