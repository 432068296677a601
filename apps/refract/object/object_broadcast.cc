// SPDX-License-Identifier: Apache-2.0
// `refract object broadcast`: one object is brought to many nodes.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "apps/progress/progress.h"
#include "apps/refract/object/object_commands.h"
#include "apps/refract/terminal.h"

#include "refract/documents/json.h"

namespace refract::cli {
namespace {

std::string outcome_of(Code code) {
  switch (code) {
    case Code::kOk:
      return "has it";
    case Code::kAway:
      return "cannot be reached";
    case Code::kNoSpace:
      return "has no room for it: see refract object stat there";
    case Code::kExists:
      return "has another object of this id";
    case Code::kCancelled:
      return "does not have it: it was removed meanwhile";
    case Code::kNotFound:
      return "does not have it: the nodes that were to give it had it no more";
    case Code::kDeadlineExceeded:
      return "did not have it in time";
    case Code::kUnsupported:
      return "does not have it: its version cannot get it so";
    default:
      return fmt::format("does not have it: {}", info(code).sentence);
  }
}

documents::Value row_of(const BroadcastNode& node) {
  return {{"node", node.node}, {"code", std::string(text(node.code))}};
}

}  // namespace

int broadcast_object(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const std::string& id = invocation.ids.front();
  const auto done = objects.broadcast(id, invocation.nodes, invocation.wait_ms.value_or(60'000));
  if (!done) {
    const std::string what =
        fmt::format("cannot bring {} to other nodes", in_quotes(id_text(invocation, id)));
    return complain(explain_object(client, objects, done.code(), what));
  }
  size_t width = 0;
  for (const BroadcastNode& node : done->nodes) width = std::max(width, node.node.size());
  for (const BroadcastNode& node : done->nodes) {
    const int written =
        invocation.base.json
            ? write_json(row_of(node))
            : write_text(fmt::format("{:<{}}  {}\n", node.node, width, outcome_of(node.code)));
    if (written != kDone) return written;
  }
  if (done->untold > 0 && !invocation.base.json) {
    const std::string more = fmt::format("and {} more nodes\n", progress::count_text(done->untold));
    if (const int written = write_text(more); written != kDone) return written;
  }
  return done->missed == 0 ? kDone : kNotDone;
}

}  // namespace refract::cli
