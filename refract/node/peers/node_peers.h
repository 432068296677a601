// SPDX-License-Identifier: Apache-2.0
// Sessions to one shard each of the other members, over TCP and in the node role: to that of their objects,
// or to one of keys.
//
// A member is asked at its first shard how many shards of keys it has, which is the number of the shard of
// its objects, and then the shard that is meant is joined. What fails or ends is begun again behind a pause:
// 20 ms at first, doubled up to 2 s, half of it by chance. A session that lasted for a second begins with the
// first pause again.
//
// Nothing here waits. A host that is given in numbers is reached directly; a name is looked up by a thread of
// its own, which is there for as long as the system's resolver takes, at each new beginning. Sessions that
// stand cost two loads a poll, whatever their number, and one system call of their domain, as each domain's;
// asleep they cost nothing. A member that is not there costs a timer and an attempt in each pause.
//
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/cluster/peers.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::node {

class NodePeers final : public cluster::Peers, public runtime::Poller {
 public:
  struct Options {
    uint64_t connect_timeout_ns = 5 * kSecond_ns;  // Of one attempt at one shard.
    uint64_t pause_first_ns = 20 * kMillisecond_ns;
    uint64_t pause_longest_ns = 2 * kSecond_ns;
    std::optional<uint32_t> shard = {};  // Of keys; nothing: that of objects.
  };

  // Both outlive this. Until reach() is called, this costs nothing.
  NodePeers(runtime::Shard& shard, const fabric::tcp::Secret& cluster_secret)
      : NodePeers(shard, cluster_secret, Options{}) {}
  NodePeers(runtime::Shard& shard, const fabric::tcp::Secret& cluster_secret, const Options& options);
  NodePeers(const NodePeers&) = delete;
  NodePeers& operator=(const NodePeers&) = delete;
  // The watcher is not told. REQUIRES: no call of a session is suspended, as for ~Session.
  ~NodePeers() override;

  // Also from within the watcher.
  void reach(const cluster::MemberList& list, const std::string& self, Watcher& watcher) override;
  // kNotFound: there is no such member to be reached.
  void let_go(rpc::Session& session) noexcept override;
  [[nodiscard]] Report trouble(std::string_view name) const override;
  // How many shards of keys the member has. Nothing: there is no session to it now.
  [[nodiscard]] std::optional<uint32_t> shards_of(std::string_view name) const;

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "node peers"; }

 private:
  enum class Stage : uint8_t {
    kPause,   // Until due_ns.
    kLookup,  // Of its host's name.
    kAsk,     // Its first shard is connected to.
    kJoin,    // The shard that is meant is.
    kUp,      // The watcher has the session.
    kLeave,   // Likewise, and the session is being closed.
  };
  struct Peer;

  [[nodiscard]] bool has_news() const noexcept;
  [[nodiscard]] Reported<> open_domain();
  [[nodiscard]] Peer* find(std::string_view name) const noexcept;
  // Each returns how much it did.
  size_t step(Peer& peer);
  size_t look_up(Peer& peer);
  size_t look_at_session(Peer& peer);

  void begin(Peer& peer);
  void try_place(Peer& peer);
  void asked(Peer& peer);
  void joined(Peer& peer);
  void ended(Peer& peer);
  void fail(Peer& peer, const Report& why);
  void pause(Peer& peer, const Report& why);
  void begin_at(Peer& peer, uint64_t moment_ns) noexcept;
  void drop_attempt(Peer& peer) noexcept;
  void leave(Peer& peer);
  [[nodiscard]] Report refusal_of(const Peer& peer) const;
  void set_alarm();

  runtime::Shard& shard_;
  const fabric::tcp::Secret& secret_;
  const Options options_;
  Prng prng_;
  Watcher* watcher_ = nullptr;  // Null: reach() has not been called, and the shard does not poll this.
  std::unique_ptr<fabric::tcp::ClientDomain> domain_;  // Null: nothing was connected to yet.
  std::optional<fabric::Dispatcher> dispatcher_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<rpc::Session>> closed_sessions_;  // Which the watcher may be in.
  // Calls of these may be in line for two turns behind the end: the last one's, and the one before.
  std::array<std::vector<std::unique_ptr<rpc::Session>>, 2> ended_sessions_;
  uint64_t changes_seen_ = 0;  // Channels opened and closed, as the domain counts.
  size_t attempts_ = 0;        // Peers between a pause and its outcome, as of the last poll.
  uint64_t next_due_ns_ = kForever_ns;
  runtime::Task<> alarm_;
  uint64_t alarm_ns_ = kForever_ns;
};

}  // namespace refract::node
