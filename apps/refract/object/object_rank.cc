// SPDX-License-Identifier: Apache-2.0
// `refract object rank`: which nodes could have some objects soonest.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/progress/progress.h"
#include "apps/refract/object/object_commands.h"
#include "apps/refract/terminal.h"

#include "refract/documents/json.h"

namespace refract::cli {
namespace {

// Nothing: what the node said counts.
std::string_view trouble_of(Code code) noexcept {
  switch (code) {
    case Code::kOk:
      return {};
    case Code::kNoSpace:
      return "all of them are more than it may have (--objects-limit)";
    case Code::kAway:
      return "it cannot be reached";
    case Code::kDeadlineExceeded:
      return "it did not answer in time";
    case Code::kUnsupported:
      return "its version cannot say";
    default:
      return "its answer makes no sense";
  }
}

bool has_numbers(const RankedNode& node) noexcept {
  return node.code == Code::kOk || node.code == Code::kNoSpace;
}

std::string text_of(const RankedNode& node, size_t width) {
  std::string text = fmt::format("{:<{}}", node.node, width);
  if (has_numbers(node)) {
    std::string time = node.time_ns == 0 ? "0 s" : time_text(node.time_ns);
    if (node.is_guessed) time.insert(0, "~");
    text += fmt::format(" {:>8} {:>15} {:>10}", progress::count_text(node.missing_objects),
                        progress::count_text(node.missing_bytes), time);
    if (node.unreachable_objects > 0) {
      text += fmt::format("  and not {} of them: it reaches no node that has them",
                          progress::count_text(node.unreachable_objects));
    }
  }
  if (const std::string_view trouble = trouble_of(node.code); !trouble.empty()) {
    text += fmt::format("  {}", trouble);
  }
  return text + "\n";
}

documents::Value row_of(const RankedNode& node) {
  documents::Value row = {{"node", node.node}, {"code", std::string(text(node.code))}};
  if (!has_numbers(node)) return row;
  row.update({{"missing_objects", node.missing_objects},
              {"missing_bytes", node.missing_bytes},
              {"time_ns", node.time_ns},
              {"is_guessed", node.is_guessed},
              {"unreachable_objects", node.unreachable_objects}});
  return row;
}

int complain_of(const ObjectInvocation& invocation, const std::string& id, Code code) {
  const std::string name = in_quotes(id_text(invocation, id));
  if (code == Code::kNotFound) {
    return complain({code, fmt::format("{} does not count: no node has it", name),
                     "refract object where says who has what"});
  }
  return complain({code, fmt::format("{} does not count: whether some node has it was not found out", name),
                   "look whether all nodes run, with the same list: refract cluster"});
}

}  // namespace

int rank_nodes(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const std::vector<Bytes> ids(invocation.ids.begin(), invocation.ids.end());
  const auto rank = objects.rank(ids, invocation.wait_ms.value_or(1'000));
  if (!rank) return complain(explain_object(client, objects, rank.code(), "the nodes cannot be ranked"));
  int worst = kDone;
  for (size_t i = 0; i < rank->ids.size(); ++i) {
    if (rank->ids[i] == Code::kOk) continue;
    worst = std::max(worst, complain_of(invocation, invocation.ids[i], rank->ids[i]));
  }
  size_t width = 4;
  for (const RankedNode& node : rank->nodes) width = std::max(width, node.node.size());
  std::string head;
  if (!invocation.base.json) {
    head = fmt::format("{:<{}} {:>8} {:>15} {:>10}\n", "node", width, "missing", "bytes", "time");
    if (const int written = write_text(head); written != kDone) return written;
  }
  for (const RankedNode& node : rank->nodes) {
    const int written = invocation.base.json ? write_json(row_of(node)) : write_text(text_of(node, width));
    if (written != kDone) return written;
  }
  return worst;
}

}  // namespace refract::cli
