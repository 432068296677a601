// SPDX-License-Identifier: Apache-2.0
#include "refract/client/paths/discovery.h"

#include <fmt/format.h>

#include <utility>

#include "refract/base/boot_id.h"
#include "refract/base/default_socket.h"
#include "refract/client/paths/patience.h"

namespace refract::client {

using runtime::Pending;
using runtime::Task;

namespace {

// With what may be done about it, since it is not shown as an error of its own.
std::string reason_of(const Report& why) {
  return why.next.empty() ? why.what : fmt::format("{} ({})", why.what, why.next);
}

class Search {
 public:
  // All outlive it.
  Search(runtime::Shard& shard, const Settings& settings, const Target& target, uint64_t deadline_ns) noexcept
      : shard_(shard), settings_(settings), target_(target), deadline_ns_(deadline_ns) {}

  // What the address names, and nothing else.
  [[nodiscard]] Task<Reported<Discovery>> straight(const TransportRow& row, std::string_view chosen) {
    if (&row == &verbs_row()) {
      if (auto possible = settings_.rdma_is_possible(); !possible) {
        co_return report(std::move(possible).error());
      }
    }
    auto reached = co_await reach(row, target().text());
    if (!reached) co_return report(std::move(reached).error());
    co_return Discovery{.connection = std::move(*reached),
                        .address = target().text(),
                        .chosen = std::string(chosen),
                        .others = {},
                        .target = {}};
  }

  // Shared memory where it leads to the node that answers at the host, which may have to say where that is;
  // else RDMA, where both ends have it; else TCP.
  [[nodiscard]] Task<Reported<Discovery>> through_host() {
    is_choice_ = true;
    if (target().is_loopback()) {
      auto found = co_await at_default_socket();
      if (found) co_return std::move(*found);
      why_not_shm_ = std::move(found).error().what;
    }
    auto reached = co_await reach(tcp_row(), target().text());
    if (!reached) {
      Report why = std::move(reached).error();
      if (!why_not_shm_.empty())
        why.what += fmt::format("\nshared memory does not lead there: {}", why_not_shm_);
      co_return report(std::move(why));
    }
    Connection::Owned remote = std::move(*reached);
    auto found = co_await where_the_node_says(*remote);
    if (found) co_return std::move(*found);
    why_not_shm_ = std::move(found).error().what;
    if (target().preference == Preference::kShm) {
      co_return report(Code::kUnsupported,
                       fmt::format("shared memory does not lead to {}: {}", target().text(), why_not_shm_),
                       "leave the choice to transport=auto, or name transport=tcp");
    }
    auto by_rdma = co_await through_rdma(*remote);
    if (by_rdma) co_return std::move(*by_rdma);
    co_return Discovery{.connection = std::move(remote),
                        .address = target().text(),
                        .chosen = "it is the best that leads to the node",
                        .others = {{.transport = "shm", .reason = why_not_shm_},
                                   {.transport = "verbs", .reason = reason_of(by_rdma.error())}},
                        .target = {}};
  }

 private:
  [[nodiscard]] const Target& target() const noexcept { return target_; }

  [[nodiscard]] Task<Reported<Connection::Owned>> reach(const TransportRow& row, std::string address) {
    auto begun =
        Connection::begin(shard_, row, settings_.request_to(std::move(address)), settings_.options.paths);
    if (!begun) co_return report(std::move(begun).error());
    Connection::Owned connection = std::move(*begun);
    // A node here that is stopped must leave time for the one that was asked for.
    const uint64_t now = shard_.refresh_now();
    const bool is_guess = is_choice_ && &row != &tcp_row() && deadline_ns_ > now;
    const uint64_t until_ns = is_guess ? now + (deadline_ns_ - now) / 4 : deadline_ns_;
    co_await await_first_state(shard_, *connection, until_ns);
    if (!has_come_up(*connection)) co_return report(connection->trouble());
    co_return std::move(connection);
  }

  [[nodiscard]] Task<Reported<Discovery>> at_default_socket() {
    const std::string path = default_socket_path();
    auto reached = co_await reach(shm_row(), path);
    if (!reached) co_return report(std::move(reached).error());
    const uint16_t port = (*reached)->facts().tcp_port;
    if (port != target().port) {
      const std::string listens = port == 0 ? "does not listen" : fmt::format("listens at port {}", port);
      co_return report(Code::kUnavailable,
                       fmt::format("the node at {} {}, and {} was asked for", path, listens, target().port));
    }
    co_return by_shm(std::move(*reached), path, "the node is on this host, at its default socket");
  }

  [[nodiscard]] Task<Reported<Discovery>> where_the_node_says(Connection& remote) {
    const NodeFacts& facts = remote.facts();
    const std::optional<BootId> here = host_boot_id();
    if (!here) co_return report(Code::kUnsupported, "this host does not say which boot it runs");
    if (facts.boot_id != *here) {
      co_return report(Code::kUnsupported, fmt::format("the node runs on another host than this client"));
    }
    if (facts.socket_path.empty()) {
      co_return report(Code::kUnsupported, "the node names no socket for clients of its host");
    }
    auto reached = co_await reach(shm_row(), facts.socket_path);
    if (!reached) co_return report(std::move(reached).error());
    if ((*reached)->facts().identity != facts.identity) {
      co_return report(Code::kUnavailable, fmt::format("another node answers at {}", facts.socket_path));
    }
    co_return by_shm(std::move(*reached), facts.socket_path,
                     "the node is on this host, and said over TCP where it is met");
  }

  [[nodiscard]] Task<Reported<Discovery>> through_rdma(Connection& remote) {
    if (auto possible = settings_.rdma_is_possible(); !possible) {
      co_return report(std::move(possible).error());
    }
    auto reached = co_await reach(verbs_row(), target().text());
    if (!reached) co_return report(std::move(reached).error());
    if ((*reached)->facts().identity != remote.facts().identity) {
      co_return report(Code::kUnavailable,
                       fmt::format("another node answered at {} meanwhile", target().text()));
    }
    co_return Discovery{.connection = std::move(*reached),
                        .address = target().text(),
                        .chosen = "both ends have RDMA, and reads take nothing of the server's time",
                        .others = {{.transport = "shm", .reason = why_not_shm_},
                                   {.transport = "tcp", .reason = "RDMA leads to the same node"}},
                        .target = {}};
  }

  [[nodiscard]] Discovery by_shm(Connection::Owned connection, const std::string& path,
                                 std::string_view chosen) const {
    return {.connection = std::move(connection),
            .address = path,
            .chosen = std::string(chosen),
            .others = {{.transport = "verbs",
                        .reason = "shared memory leads to the same node, where reads take no device"},
                       {.transport = "tcp",
                        .reason = "shared memory leads to the same node, where reads take no message"}},
            .target = {}};
  }

  runtime::Shard& shard_;
  const Settings& settings_;
  const Target& target_;
  uint64_t deadline_ns_;
  bool is_choice_ = false;  // Among several transports, so that none may use up the time of the others.
  std::string why_not_shm_;
};

}  // namespace

Task<> await_first_state(runtime::Shard& shard, Link& link, uint64_t deadline_ns) {
  while (link.state() == Link::State::kConnecting) {
    // Awaiting changes it, which the check does not see.
    Pending change = shard.ops().begin(deadline_ns);  // NOLINT(misc-const-correctness)
    link.wake_at_change(change.token());
    const runtime::OpResult woken = co_await change;
    if (woken.code != Code::kOk) break;
  }
  // We may have been woken by a connection in the middle of its poll: let it end before any is retired.
  co_await shard.sleep_for(0);
}

Task<Reported<Discovery>> find_node(runtime::Shard& shard, const Settings& settings, Target target,
                                    uint64_t deadline_ns) {
  Search search(shard, settings, target, deadline_ns);
  Reported<Discovery> found;
  if (target.is_path()) {
    found = co_await search.straight(shm_row(), "the address is the path of a socket");
  } else if (target.preference == Preference::kTcp || target.preference == Preference::kVerbs) {
    const TransportRow& row = target.preference == Preference::kTcp ? tcp_row() : verbs_row();
    found = co_await search.straight(row, "the address asks for it");
  } else {
    found = co_await search.through_host();
  }
  if (found) found->target = std::move(target);
  co_return std::move(found);
}

Task<Reported<Discovery>> find_node(runtime::Shard& shard, const Settings& settings, uint64_t deadline_ns) {
  const std::vector<Target> targets = settings.target.each();
  Reported<Discovery> found;
  for (size_t i = 0; i < targets.size(); ++i) {
    found = co_await find_node(shard, settings, targets[i],
                               share_of(shard.refresh_now(), deadline_ns, targets.size() - i));
    if (found) break;
  }
  co_return std::move(found);
}

}  // namespace refract::client
