// SPDX-License-Identifier: Apache-2.0
// Sessions to the other members of a list, in the node role: what a member's service asks of others goes
// through these. What carries them is the node's matter.
//
// Threads: the shard's that owns the service.
#pragma once

#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/cluster/member_list.h"
#include "refract/rpc/session.h"

namespace refract::cluster {

class Peers {
 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // Calls may be sent from now on until peer_closed(). Called in the middle of a poll.
    virtual void peer_opened(const std::string& name, rpc::Session& session) noexcept = 0;
    // It has closed for good, and all calls under way have ended. The session stays until let_go().
    virtual void peer_closed(const std::string& name, rpc::Session& session) noexcept = 0;
  };
  virtual ~Peers() = default;

  // From now on a session is kept to each member but `self`: one that fails or ends is tried again, after
  // pauses that grow. Sessions to members that are not in the list any more, or have another address, end,
  // and the watcher is told. The watcher outlives the peers.
  virtual void reach(const MemberList& list, const std::string& self, Watcher& watcher) = 0;
  // Of a session that has closed: nothing uses it any more. Not called from what the session has resumed.
  virtual void let_go(rpc::Session& session) noexcept = 0;
  // Why there is no session to this member now; code kOk: there is one.
  [[nodiscard]] virtual Report trouble(std::string_view name) const = 0;
};

}  // namespace refract::cluster
