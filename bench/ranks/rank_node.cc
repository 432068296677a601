// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks/rank_node.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include "bench/bars/loaded_node.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr uint64_t kSlackBytes = 64 * kMiB;

Reported<std::string> host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) return std::string(name.data());
  return report(Code::kSystem, "this host has no name");
}

Reported<std::string> address_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::string address;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) == 0) {
    for (const addrinfo* each = found; each != nullptr && address.empty(); each = each->ai_next) {
      std::array<char, NI_MAXHOST> text{};
      if (::getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0 &&
          !std::string_view(text.data()).starts_with("127."))
        address = text.data();
    }
    ::freeaddrinfo(found);
  }
  if (!address.empty()) return address;
  return report(Code::kUnavailable,
                fmt::format("the name of this host, {}, stands for no IPv4 address", host),
                "ranks on several hosts reach each other by these; see /etc/hosts");
}

// By rank.
Reported<std::vector<std::string>> addresses_of(Ranks& ranks) {
  const Reported<std::string> host = host_name();
  if (!host) return report(host.error());
  const Reported<std::vector<std::string>> hosts = ranks.gather(*host);
  if (!hosts) return report(hosts.error());
  const bool is_one = std::ranges::all_of(*hosts, [&host](const std::string& one) { return one == *host; });
  if (is_one) return std::vector<std::string>(ranks.count(), kLoopback);
  const Reported<std::string> own = address_of(*host);
  if (!own) return report(own.error());
  return ranks.gather(*own);
}

Reported<> enter_network(const std::string& path) {
  const Descriptor network(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (network && ::setns(network.get(), CLONE_NEWNET) == 0) return {};
  return report(Code::kSystem, fmt::format("cannot enter the network {}: {}", path, errno_text(errno)));
}

// By rank. A short way, so that what is measured are the two ends.
Reported<std::vector<std::string>> part_ways(Ranks& ranks, std::unique_ptr<DelayedPath>& path) {
  std::string said;
  if (ranks.index() == 0) {
    Reported<DelayedPath> made =
        DelayedPath::create({.round_trip_ns = 100 * kMicrosecond_ns, .bytes_per_s = 1'000'000'000});
    if (!made) return report(made.error());
    path = std::make_unique<DelayedPath>(std::move(*made));
    said = fmt::format("{} {} {}", path->far_network(), path->near_address(), path->far_address());
  }
  const Reported<std::vector<std::string>> all = ranks.gather(said);
  if (!all) return report(all.error());
  std::istringstream words(all->front());
  std::string network;
  std::vector<std::string> addresses(2);
  words >> network >> addresses[0] >> addresses[1];
  if (ranks.index() == 0) return addresses;
  if (const Reported<> entered = enter_network(network); !entered) return report(entered.error());
  return addresses;
}

// Drawn by rank 0, for all.
Reported<std::string> secret_of(Ranks& ranks) {
  std::array<unsigned char, 24> drawn{};
  if (::getrandom(drawn.data(), drawn.size(), 0) != std::ssize(drawn))
    return report(Code::kSystem, "no random bytes");
  std::string own;
  for (const unsigned char byte : drawn) own += fmt::format("{:02x}", byte);
  const Reported<std::vector<std::string>> all = ranks.gather(own);
  if (!all) return report(all.error());
  return all->front() + "\n";
}

Reported<std::string> list_of(Ranks& ranks, const std::vector<std::string>& addresses, uint16_t port) {
  const Reported<std::vector<std::string>> ports = ranks.gather(std::to_string(port));
  if (!ports) return report(ports.error());
  std::string list = "version=1";
  for (size_t i = 0; i < ports->size(); ++i)
    list += fmt::format(",rank{}={}:{}", i, addresses[i], (*ports)[i]);
  return list;
}

}  // namespace

Reported<RankNode> start_rank_node(Ranks& ranks, const RankNodeOptions& options) {
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  std::unique_ptr<DelayedPath> path;
  const Reported<std::vector<std::string>> addresses =
      options.is_apart ? part_ways(ranks, path) : addresses_of(ranks);
  if (!addresses) return report(addresses.error());
  const Reported<std::string> secret = secret_of(ranks);
  if (!secret) return report(secret.error());
  const std::string secret_path = folder->path() + "/secret";
  if (const Reported<> written = write_node_secret(secret_path, *secret); !written)
    return report(written.error());
  const Reported<uint16_t> port = free_port();
  if (!port) return report(port.error());
  const Reported<std::string> list = list_of(ranks, *addresses, *port);
  if (!list) return report(list.error());
  Reported<PrivateNode> node = PrivateNode::start(
      {.program = options.program,
       .memory_limit_bytes = node_memory_bytes(1000),
       .spin = options.spin,
       .is_bound = false,
       .listen_address = (*addresses)[ranks.index()],
       .objects_limit_bytes = options.objects_bytes + kSlackBytes,
       .listen_port = *port,
       .further = {"--cluster-nodes", *list, "--cluster-self", fmt::format("rank{}", ranks.index()),
                   "--cluster-secret-file", secret_path}});
  if (!node) return report(node.error());
  Reported<Client> client = connect_to(*node);
  if (!client) return report(client.error());
  Reported<Objects> objects = client->objects();
  if (!objects) return report(objects.error());
  if (const auto all = ranks.gather("started"); !all) return report(all.error());
  return RankNode{.path = std::move(path),
                  .folder = std::move(*folder),
                  .ends = {*std::move(node), *std::move(client), *objects},
                  .addresses = *addresses};
}

}  // namespace refract::bench
