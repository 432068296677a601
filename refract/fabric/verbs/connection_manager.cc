// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/connection_manager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "refract/fabric/verbs/library.h"
#include "refract/fabric/verbs/tuning.h"

namespace refract::fabric::verbs {
namespace {

using What = ConnectionManager::Outcome::What;

constexpr int kResolve_ms = 2'000;
// A listener's requests that wait for our next poll; what comes beyond is asked again by the peer's kernel.
constexpr int kBacklog = 64;
constexpr std::string_view kLookAround =
    "see that both ends have librdmacm and the kernel's rdma_ucm (modprobe rdma_ucm), and that the addresses "
    "reach each other (ping -I)";

// The address that a GID stands for. librdmacm finds InfiniBand's ports by IPoIB, which a GID does not tell.
class SocketAddress {
 public:
  SocketAddress(const Gid& gid, const std::string& interface, uint16_t port) noexcept {
    constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::equal(kMapped.begin(), kMapped.end(), gid.begin())) {
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_port = ::htons(port);
      std::memcpy(&four.sin_addr, gid.data() + kMapped.size(), sizeof(four.sin_addr));
      std::memcpy(&storage_, &four, sizeof(four));
      return;
    }
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = ::htons(port);
    std::memcpy(&six.sin6_addr, gid.data(), gid.size());
    if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) six.sin6_scope_id = ::if_nametoindex(interface.c_str());
    std::memcpy(&storage_, &six, sizeof(six));
  }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }

 private:
  sockaddr_storage storage_{};
};

std::string text_of(const Gid& gid) {
  return GidFacts{.gid = gid, .interface = {}}.to_string();
}

std::string errno_words(int error) {
  return fmt::format("{} (errno {})", std::strerror(error), error);  // NOLINT(concurrency-mt-unsafe)
}

Report cannot(std::string_view what, int error) {
  return {Code::kUnavailable, fmt::format("librdmacm cannot {}: {}", what, errno_words(error)),
          std::string(kLookAround)};
}

Reported<> check_kind(const GidFacts& here) {
  if (here.kind != GidKind::kInfiniBand) return {};
  return report(Code::kUnsupported,
                "librdmacm connects ports on Ethernet here, and this one is on InfiniBand",
                "let the ends exchange queue pair numbers (connect_by exchange)");
}

// As the specification has them; those of a person's interest.
std::string_view reason_of(int status) noexcept {
  switch (status) {
    case 8:
      return "no process listens at that port any more";
    case 10:
      return "it takes the connection for one of before";
    case 28:
      return "it knows no such introduction";
    default:
      return "see the reasons of a REJ message in the specification";
  }
}

}  // namespace

// An event's news, copied so that it can be acknowledged at once: nothing is destroyed before that.
struct ConnectionManager::News {
  rdma_cm_id* id = nullptr;
  rdma_cm_event_type kind{};
  int status = 0;
  std::array<std::byte, 64> bytes{};  // Private data.
  size_t count = 0;
};

CmIdentifier::~CmIdentifier() {
  if (id_ != nullptr) (void)library_->destroy_id(id_);
}

ConnectionManager::ConnectionManager(const OpenDevice& device, const CmLibrary& library,
                                     rdma_event_channel* events) noexcept
    : device_(device), library_(library), events_(events) {}

Reported<std::unique_ptr<ConnectionManager>> ConnectionManager::make(const OpenDevice& device) {
  auto library = cm_library();
  if (!library) return report(library.error());
  rdma_event_channel* const events = (*library)->create_event_channel();
  if (events == nullptr) {
    return report(Code::kUnsupported,
                  fmt::format("librdmacm finds nothing in the kernel to speak to: {}", errno_words(errno)),
                  "modprobe rdma_ucm, and let this user open /dev/infiniband/rdma_cm");
  }
  std::unique_ptr<ConnectionManager> made(new ConnectionManager(device, **library, events));
  if (::fcntl(events->fd, F_SETFL, O_NONBLOCK) != 0) return report(cannot("be asked without waiting", errno));
  return made;
}

ConnectionManager::~ConnectionManager() {
  connections_.clear();
  listeners_.clear();
  library_.destroy_event_channel(events_);
}

int ConnectionManager::descriptor() const noexcept {
  return events_->fd;
}

Reported<uint16_t> ConnectionManager::listen(const GidFacts& here) {
  const auto found = std::ranges::find(listeners_, here.index, &Listener::gid_index);
  if (found != listeners_.end()) return found->port;
  if (auto possible = check_kind(here); !possible) return report(possible.error());
  rdma_cm_id* made = nullptr;
  if (library_.create_id(events_, &made, nullptr, RDMA_PS_TCP) != 0) {
    return report(cannot("make a listener", errno));
  }
  CmIdentifier id(library_, made);
  SocketAddress address(here.gid, here.interface, 0);
  if (library_.bind_addr(made, address.get()) != 0 || library_.listen(made, kBacklog) != 0) {
    return report(cannot(fmt::format("listen at {}", here.to_string()), errno));
  }
  const uint16_t port = ::ntohs(library_.get_src_port(made));
  listeners_.push_back({.id = std::move(id), .gid_index = here.index, .port = port});
  return port;
}

Reported<> ConnectionManager::connect(const Target& target) {
  if (auto possible = check_kind(*target.here); !possible) return possible;
  rdma_cm_id* made = nullptr;
  if (library_.create_id(events_, &made, nullptr, RDMA_PS_TCP) != 0) {
    return report(cannot("make a connection", errno));
  }
  CmIdentifier id(library_, made);
  // From that address and no other, so that the connection leaves by the device that has the queue pair.
  SocketAddress here(target.here->gid, target.here->interface, 0);
  SocketAddress there(target.peer.gid, target.here->interface, static_cast<uint16_t>(target.peer.port));
  if (library_.resolve_addr(made, here.get(), there.get(), kResolve_ms) != 0) {
    return report(cannot(fmt::format("look for a way to {}", text_of(target.peer.gid)), errno));
  }
  const uint32_t number = target.pair->number();
  forget(number);
  connections_.emplace(number, Connection{.id = std::move(id), .pair = target.pair, .peer = target.peer});
  return {};
}

std::optional<ConnectionManager::Outcome> ConnectionManager::next() {
  rdma_cm_event* event = nullptr;
  while (library_.get_cm_event(events_, &event) == 0) {
    News news{.id = event->id, .kind = event->event, .status = event->status};
    if (news.kind == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data != nullptr) {
      news.count = std::min<size_t>(event->param.conn.private_data_len, news.bytes.size());
      std::memcpy(news.bytes.data(), event->param.conn.private_data, news.count);
    }
    (void)library_.ack_cm_event(event);
    if (auto outcome = hear(news)) return outcome;
  }
  return {};
}

std::optional<ConnectionManager::Outcome> ConnectionManager::hear(const News& news) {
  if (news.kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
    CmIdentifier asker(library_, news.id);
    const auto token = decode_token(std::span(news.bytes).first(news.count));
    if (!token || !check_device(*news.id)) {
      reject(std::move(asker));
      return {};
    }
    return Outcome{.what = What::kRequest, .token = token->token, .asker = std::move(asker), .why = {}};
  }
  const auto found =
      std::ranges::find_if(connections_, [&news](const auto& row) { return row.second.id.get() == news.id; });
  // A listener whose device goes is told by the device, too.
  if (found == connections_.end() || found->second.is_connected) return {};
  const uint32_t number = found->first;
  const auto done = advance(found->second, news);
  if (!done) {
    forget(number);
    return Outcome{.what = What::kFailed, .asker = {}, .queue_pair = number, .why = done.error()};
  }
  if (!*done) return {};
  found->second.is_connected = true;
  return Outcome{.what = What::kConnected, .asker = {}, .queue_pair = number, .why = {}};
}

// True: it is connected.
Reported<bool> ConnectionManager::advance(Connection& connection, const News& news) {
  const std::string to = text_of(connection.peer.gid);
  const auto fails = [&to](std::string_view what) {
    return report(Code::kUnavailable, fmt::format("librdmacm {} {}", what, to), std::string(kLookAround));
  };
  switch (news.kind) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (auto ours = check_device(*connection.id.get()); !ours) return report(ours.error());
      if (library_.resolve_route(connection.id.get(), kResolve_ms) != 0) {
        return report(cannot(fmt::format("look for a route to {}", to), errno));
      }
      return false;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (auto sent = send_request(connection); !sent) return report(sent.error());
      return false;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (auto ready = change_states(connection, /*is_receiving=*/true); !ready) return report(ready.error());
      if (library_.establish(connection.id.get()) != 0) return report(cannot("confirm a connection", errno));
      return true;
    case RDMA_CM_EVENT_ESTABLISHED:
      return true;
    case RDMA_CM_EVENT_ADDR_ERROR:
      return fails(fmt::format("finds no device that leads ({}) to", errno_words(-news.status)));
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return fails(fmt::format("finds no route ({}) to", errno_words(-news.status)));
    case RDMA_CM_EVENT_UNREACHABLE:
      return fails("has no answer from");
    case RDMA_CM_EVENT_REJECTED:
      return fails(fmt::format("was turned down (reason {}: {}) by", news.status, reason_of(news.status)));
    default:
      return fails(
          fmt::format("reports {}, status {}, on the way to", library_.event_str(news.kind), news.status));
  }
}

namespace {

rdma_conn_param parameters_for(const DeviceLimits& limits, const QueuePair& pair, const Introduction& peer) {
  rdma_conn_param parameters{};
  parameters.qp_num = pair.number();
  parameters.responder_resources =
      static_cast<uint8_t>(std::min({limits.reads_in_max, peer.reads_out_max, uint32_t{UINT8_MAX}}));
  parameters.initiator_depth =
      static_cast<uint8_t>(std::min({limits.reads_out_max, peer.reads_in_max, uint32_t{UINT8_MAX}}));
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kReceiverNotReadyRetries;
  parameters.srq = 1;
  return parameters;
}

}  // namespace

Reported<> ConnectionManager::send_request(Connection& connection) {
  if (auto changed = change_states(connection, /*is_receiving=*/false); !changed) return changed;
  const Token token{.header = header_of(Kind::kToken), .token = connection.peer.token};
  rdma_conn_param parameters = parameters_for(device_.facts().limits, *connection.pair, connection.peer);
  parameters.private_data = &token;
  parameters.private_data_len = sizeof(token);
  if (library_.connect(connection.id.get(), &parameters) != 0) {
    return report(cannot(fmt::format("ask {} for a connection", text_of(connection.peer.gid)), errno));
  }
  return {};
}

Reported<> ConnectionManager::accept(CmIdentifier asker, QueuePair& pair, const Introduction& peer) {
  Connection connection{.id = std::move(asker), .pair = &pair, .peer = peer};
  auto changed = change_states(connection, /*is_receiving=*/false);
  if (changed) changed = change_states(connection, /*is_receiving=*/true);
  if (!changed) {
    reject(std::move(connection.id));
    return changed;
  }
  rdma_conn_param parameters = parameters_for(device_.facts().limits, pair, peer);
  if (library_.accept(connection.id.get(), &parameters) != 0) {
    return report(cannot(fmt::format("accept a connection from {}", text_of(peer.gid)), errno));
  }
  forget(pair.number());
  connections_.emplace(pair.number(), std::move(connection));
  return {};
}

void ConnectionManager::reject(CmIdentifier asker) noexcept {
  (void)library_.reject(asker.get(), nullptr, 0);
}

// librdmacm knows what a state takes; how patient we are is our own. Of the two ends' MTU the smaller one is
// taken here, too, since librdmacm sees only this end's.
Reported<> ConnectionManager::change_states(const Connection& connection, bool is_receiving) {
  const auto states =
      is_receiving ? std::array{IBV_QPS_RTR, IBV_QPS_RTS} : std::array{IBV_QPS_INIT, IBV_QPS_INIT};
  for (const ibv_qp_state state : states) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (library_.init_qp_attr(connection.id.get(), &attributes, &mask) != 0) {
      return report(cannot("say how a queue pair is set up", errno));
    }
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const uint32_t mtu_bytes = std::min(connection.peer.mtu_bytes, device_.choice().mtu_bytes);
    attributes.path_mtu =
        std::min(attributes.path_mtu, static_cast<ibv_mtu>(std::countr_zero(mtu_bytes) - 7));
    attributes.min_rnr_timer = kReceiverNotReadyTimer;
    attributes.timeout = kTimeoutExponent;
    attributes.retry_cnt = kRetries;
    attributes.rnr_retry = kReceiverNotReadyRetries;
    const int error = device_.calls().modify_qp(connection.pair->get(), &attributes, mask);
    if (error != 0) {
      return report(cannot(
          fmt::format("set up {}'s queue pair for {}", device_.facts().name, text_of(connection.peer.gid)),
          error));
    }
    if (!is_receiving) break;
  }
  return {};
}

Reported<> ConnectionManager::check_device(const rdma_cm_id& id) const {
  const char* const name = id.verbs == nullptr ? "none" : device_.calls().get_device_name(id.verbs->device);
  if (name == device_.facts().name && id.port_num == device_.choice().port) return {};
  return report(Code::kUnavailable,
                fmt::format("librdmacm would go by {} port {} and not by {} port {}", name, id.port_num,
                            device_.facts().name, device_.choice().port),
                "name the other device, or see the routes (ip route get)");
}

}  // namespace refract::fabric::verbs
