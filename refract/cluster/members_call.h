// SPDX-License-Identifier: Apache-2.0
// Asks a node for the list of nodes: the asking end of members_wire.h.
//
// Threads: used only by the session's shard.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/result.h"
#include "refract/cluster/member_list.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::cluster {

struct ToldMembers {
  MemberList list;
  size_t self = 0;  // The index of the node that was asked.
};

// The whole list, which is of one version. kUnsupported: the node has none, or is of an older release.
// kMalformed: what it says makes no sense. kUnavailable: nothing was asked, or the session has ended.
// kDeadlineExceeded. kInvalidated: the list changed again and again meanwhile. The session outlives the call.
[[nodiscard]] runtime::Task<Result<ToldMembers>> ask_members(rpc::Session& session, uint64_t deadline_ns);

}  // namespace refract::cluster
