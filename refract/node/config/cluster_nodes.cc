// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/cluster_nodes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "refract/base/log.h"
#include "refract/cluster/placement.h"
#include "refract/memory/host/descriptor.h"

namespace refract::node {
namespace {

using cluster::ListForm;
using cluster::MemberList;

constexpr std::string_view kFilePrefix = "file:";
constexpr std::string_view kNodesKey = "cluster.nodes";

Reported<std::string> read_list(const std::string& path) {
  const auto refuse = [&](Code code, std::string_view why) {
    return report(code, fmt::format("cannot read {}: {}", path, why),
                  "the file has lines NAME = HOST:PORT behind a line version = N");
  };
  // Not blocking, so that a FIFO does not hold the keeper up before it is refused.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found{};
  if (!file || ::fstat(file.get(), &found) != 0) return refuse(Code::kInvalidArgument, errno_text(errno));
  if (!S_ISREG(found.st_mode)) return refuse(Code::kInvalidArgument, "it is not a regular file");
  // One byte more than a list may have: of a longer file the parser says so.
  std::string text(cluster::kListTextBytesMax + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(Code::kSystem, errno_text(errno));
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

// Errors name the file, where there is one.
Reported<MemberList> read_nodes(const std::string& nodes) {
  if (!nodes.starts_with(kFilePrefix)) return cluster::parse_member_list(nodes, ListForm::kSetting);
  const std::string path = nodes.substr(kFilePrefix.size());
  const Reported<std::string> text = read_list(path);
  if (!text) return report(text.error());
  auto list = cluster::parse_member_list(*text, ListForm::kFile);
  if (list) return list;
  Report why = std::move(list).error();
  why.what = fmt::format("{}: {}", path, why.what);
  return report(std::move(why));
}

std::unexpected<Report> of_setting(Report why) {
  why.what = fmt::format("{}: {}", kNodesKey, why.what);
  return report(std::move(why));
}

}  // namespace

Reported<> check_cluster_nodes(const std::string& nodes) {
  if (!nodes.starts_with(kFilePrefix)) {
    const auto list = cluster::parse_member_list(nodes, ListForm::kSetting);
    return list ? Reported<>{} : report(list.error());
  }
  const bool is_absolute = nodes.size() > kFilePrefix.size() && nodes[kFilePrefix.size()] == '/';
  if (is_absolute && nodes.find('\0') == std::string::npos) return {};
  return report(Code::kInvalidArgument, fmt::format("expected file: and an absolute path, found '{}'", nodes),
                "a path may be relative on the command line and in the environment, not in a file");
}

Reported<cluster::Members> load_members(const NodeConfig& config) {
  auto list = read_nodes(config.cluster_nodes);
  if (!list) return of_setting(list.error());
  auto members = cluster::Members::create(std::move(*list), config.cluster_self);
  if (!members) return of_setting(members.error());
  return members;
}

void reload_members(const NodeConfig& config, cluster::Members& members) {
  const uint64_t before = members.list().version;
  auto list = read_nodes(config.cluster_nodes);
  Reported<bool> taken = false;
  if (!list) {
    taken = report(list.error());
  } else if (config.kv_copies != 0 && !cluster::have_same_names(*list, members.list())) {
    taken = report(
        Code::kUnsupported,
        fmt::format("it has {}, and the keys are at {}", cluster::names_text(*list),
                    cluster::names_text(members.list())),
        "with kv.copies 1 the names stay what they were when the store was made; addresses may change");
  } else {
    taken = members.take(std::move(*list));
  }
  if (!taken) {
    log_error("{}: the new list is refused, and version {} stays: {}", kNodesKey, before,
              taken.error().to_line());
  } else if (*taken) {
    log_info("{}: version {} replaces version {}: {}", kNodesKey, members.list().version, before,
             cluster::names_text(members.list()));
  } else {
    log_info("{}: looked at again; version {} stays", kNodesKey, before);
  }
}

}  // namespace refract::node
