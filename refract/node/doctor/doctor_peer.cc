// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/doctor_peer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "refract/base/boot_id.h"
#include "refract/base/clock.h"
#include "refract/base/histogram.h"
#include "refract/base/prng.h"
#include "refract/client/client.h"
#include "refract/client/link/settings.h"
#include "refract/client/paths/discovery.h"
#include "refract/fabric/tcp/socket.h"
#include "refract/fabric/verbs/device_names.h"
#include "refract/node/doctor/path_meter.h"
#include "refract/runtime/shard.h"

namespace refract::node {
namespace {

namespace tcp = fabric::tcp;

constexpr size_t kValueBytes = kMiB;
constexpr uint64_t kSamplesMin = 20;
constexpr uint64_t kSamplesMax = 20'000;

uint64_t now_ns() {
  return system_clock().now_ns();
}

// How long the kernel takes to connect, which is one round trip.
Reported<uint64_t> connect_once(const tcp::SocketAddress& address, uint64_t timeout_ns) {
  const uint64_t begin_ns = now_ns();
  const Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!socket || ::connect(socket.get(), address.get(), address.bytes) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd wanted{.fd = socket.get(), .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(timeout_ns / kMillisecond_ns));
    socklen_t bytes = sizeof(error);
    if (ready == 0) {
      error = ETIMEDOUT;
    } else if (ready < 0 || ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
      error = errno;
    }
  }
  if (error == 0) return now_ns() - begin_ns;
  const std::string to = address.text();
  switch (error) {
    case ECONNREFUSED:
      return report(Code::kUnavailable, to + " is there, and no process listens at the port",
                    "start the node with --listen-address, or give the port that its banner names");
    case ETIMEDOUT:
      return report(Code::kUnavailable, to + " does not answer",
                    "is its host up, and does a firewall drop the port?");
    case EHOSTUNREACH:
    case ENETUNREACH:
      return report(Code::kUnavailable, to + " cannot be reached: " + errno_text(error),
                    "ip route get ADDRESS says which way it would go");
    default:
      return report(Code::kUnavailable, to + ": " + errno_text(error), "see that this host's network is up");
  }
}

struct CallFigures {
  PathFigures::Latency ping;
  uint64_t put_bytes_per_s = 0;
  uint64_t get_bytes_per_s = 0;
};

// What calls over one transport cost.
class Caller {
 public:
  Caller(Client& client, uint64_t each_ns) : client_(client), each_ns_(each_ns) {}

  [[nodiscard]] Reported<CallFigures> run() {
    CallFigures figures;
    if (auto done = ping(figures.ping); !done) return report(done.error());
    const std::string key = fmt::format("refract.doctor/{:016x}", secure_random_u64());
    const std::string value(kValueBytes, 'r');
    const PutOptions passing{.ttl_ns = kMinute_ns};
    const auto put = [&] { return client_.put(key, value, passing).code(); };
    std::string back;
    const auto get = [&] { return client_.get(key, back).code(); };
    auto done = rate("putting 1 MiB", put, figures.put_bytes_per_s);
    if (done) done = rate("getting 1 MiB", get, figures.get_bytes_per_s);
    (void)client_.erase(key);
    if (!done) return report(done.error());
    return figures;
  }

 private:
  static constexpr uint64_t kMinute_ns = 60 * kSecond_ns;

  [[nodiscard]] std::unexpected<Report> failed(std::string_view what, Code code) const {
    const Report trouble = client_.trouble();
    const bool is_known = trouble.code == code && !trouble.what.empty();
    return report(code,
                  fmt::format("{}: {}", what, is_known ? trouble.what : std::string(info(code).sentence)),
                  is_known ? trouble.next : std::string());
  }

  [[nodiscard]] Reported<> ping(PathFigures::Latency& of) {
    // The first finds caches cold and the server asleep.
    if (const auto first = client_.ping(); !first) return failed("a ping", first.code());
    Histogram samples;
    const uint64_t end_ns = now_ns() + each_ns_;
    while (samples.count() < kSamplesMax && (samples.count() < kSamplesMin || now_ns() < end_ns)) {
      const auto pong = client_.ping();
      if (!pong) return failed("a ping", pong.code());
      samples.record(pong->round_trip_ns);
    }
    of = {.ns_p50 = samples.quantile(0.5), .ns_p99 = samples.quantile(0.99)};
    return {};
  }

  template <typename Call>
  [[nodiscard]] Reported<> rate(std::string_view what, const Call& call, uint64_t& bytes_per_s) {
    // Once, for what the first call has to set up.
    if (const Code code = call(); code != Code::kOk) return failed(what, code);
    const uint64_t begin_ns = now_ns();
    uint64_t bytes = 0;
    uint64_t now = begin_ns;
    for (; bytes == 0 || now < begin_ns + each_ns_; now = now_ns()) {
      if (const Code code = call(); code != Code::kOk) return failed(what, code);
      bytes += kValueBytes;
    }
    now = now_ns();
    bytes_per_s =
        static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(now - begin_ns));
    return {};
  }

  Client& client_;
  uint64_t each_ns_;
};

class PeerDoctor {
 public:
  PeerDoctor(const PeerInputs& inputs, std::string address) : inputs_(inputs), address_(std::move(address)) {}

  [[nodiscard]] std::vector<Finding> run() {
    if (look_up() && connect() && shake_hands()) {
      shm();
      verbs();
      tcp();
      choose();
    }
    return std::move(findings_);
  }

 private:
  using NodeFacts = client::NodeFacts;

  void step(std::string_view what) const {
    if (inputs_.on_step) inputs_.on_step(what);
  }

  Finding& add(std::string_view name, Health health, std::string found, std::string mend = {}) {
    if (health != Health::kOk && mend.empty()) mend = "see the log of the node, and of this host's kernel";
    findings_.push_back({std::string(name), health, std::move(found), std::move(mend)});
    return findings_.back();
  }
  bool fail(std::string_view name, const Report& why) {
    add(name, Health::kFail, why.what, why.next);
    return false;
  }

  bool look_up() {
    step("looking up the name");
    const uint64_t begin_ns = now_ns();
    const auto place = tcp::split_address(address_);
    auto found = place ? tcp::resolve(*place, /*numbers_only=*/false)
                       : Reported<std::vector<tcp::SocketAddress>>(report(place.error()));
    if (!found) return fail("peer name", found.error());
    sockets_ = std::move(*found);
    std::vector<std::string> texts;
    texts.reserve(sockets_.size());
    for (const tcp::SocketAddress& socket : sockets_) texts.push_back(socket.text());
    add("peer name", Health::kOk,
        fmt::format("{} is {}, found in {}", address_, fmt::join(texts, ", "),
                    latency_text(now_ns() - begin_ns)));
    return true;
  }

  bool connect() {
    step("connecting");
    Report why{Code::kUnavailable, "the name stands for no address", "check the name"};
    for (const tcp::SocketAddress& socket : sockets_) {
      const auto took = connect_once(socket, inputs_.options.timeout_ns);
      if (!took) {
        why = took.error();
        continue;
      }
      add("peer connection", Health::kOk,
          fmt::format("TCP connects to {} in {}", socket.text(), latency_text(*took)));
      return true;
    }
    return fail("peer connection", why);
  }

  // Over TCP, whatever else may lead there: it lets in, says who the node is, and introduces the others.
  bool shake_hands() {
    step("shaking hands");
    const uint64_t begin_ns = now_ns();
    auto settings = client::Settings::make("tcp:" + address_, inputs_.options);
    if (!settings) return fail("peer handshake", settings.error());
    runtime::Shard shard(system_clock());
    auto met = runtime::block_on(
        shard, client::find_node(shard, **settings, shard.refresh_now() + inputs_.options.timeout_ns));
    if (!met) return fail("peer handshake", met.error());
    facts_ = met->connection->facts();
    const uint64_t took_ns = now_ns() - begin_ns;
    const auto here = host_boot_id();
    is_same_host_ = here && *here == facts_.boot_id;
    add("peer handshake", Health::kOk,
        fmt::format("a node with {} shard{}, on {}, speaks this client's wire and {}; took {}",
                    facts_.shard_count, facts_.shard_count == 1 ? "" : "s",
                    is_same_host_ ? "this host" : "another host",
                    (*settings)->secret ? "knows the secret" : "asks for no secret", latency_text(took_ns)));
    return true;
  }

  // A client of this transport alone, and what calls over it cost.
  void try_transport(std::string_view name, const std::string& address, std::string_view leads) {
    step(name);
    auto client = Client::connect(address, inputs_.options);
    if (!client) {
      add(name, Health::kWarn, client.error().what, client.error().next);
      return;
    }
    std::string found(leads);
    if (const Route route = client->route(); !route.device.empty()) found = "through " + route.device;
    if (!inputs_.takes_figures) {
      add(name, Health::kOk, found);
      return;
    }
    const auto figures = Caller(*client, inputs_.each_ns).run();
    if (!figures) {
      add(name, Health::kWarn, fmt::format("{}; {}", found, figures.error().what), figures.error().next);
      return;
    }
    Finding& finding =
        add(name, Health::kOk,
            fmt::format("{}: ping {} (p99 {}), 1 MiB put at {} and got at {}", found,
                        latency_text(figures->ping.ns_p50), latency_text(figures->ping.ns_p99),
                        rate_text(figures->put_bytes_per_s), rate_text(figures->get_bytes_per_s)));
    finding.figures = {{"ping_ns_p50", figures->ping.ns_p50},
                       {"ping_ns_p99", figures->ping.ns_p99},
                       {"put_bytes_per_s", figures->put_bytes_per_s},
                       {"get_bytes_per_s", figures->get_bytes_per_s}};
  }

  void shm() {
    if (!is_same_host_) {
      add("peer shm", Health::kOk, "cannot be: the node runs on another host than this one");
      return;
    }
    const std::string& path = facts_.socket_path;
    try_transport("peer shm", fmt::format("refract://{}?transport=shm", address_),
                  fmt::format("the same host, met at {}", path));
    Finding& finding = findings_.back();
    struct stat status{};
    if (finding.health == Health::kOk || path.empty()) return;
    if (::stat(path.c_str(), &status) != 0) {
      finding.mend = fmt::format("let this program see {} (a container has folders of its own)", path);
    } else if (status.st_uid != ::geteuid() && ::access(path.c_str(), R_OK | W_OK) != 0) {
      finding.mend = fmt::format("run as user {}, who owns the socket", status.st_uid);
    }
  }

  void verbs() {
    const auto settings = client::Settings::make("verbs:" + address_, inputs_.options);
    const auto possible = settings ? (*settings)->rdma_is_possible() : Reported<>(report(settings.error()));
    if (!possible) {
      add("peer verbs", Health::kOk, "cannot be: " + possible.error().what);
      return;
    }
    try_transport("peer verbs", "verbs:" + address_, "the devices reach each other");
  }

  void tcp() { try_transport("peer tcp", "tcp:" + address_, "the socket leads there"); }

  // What a client does that leaves the choice, and what it says about it.
  void choose() {
    step("choosing as a client would");
    auto client = Client::connect("refract://" + address_, inputs_.options);
    if (!client) {
      fail("verdict", client.error());
      return;
    }
    const Route route = client->route();
    std::string found = fmt::format("{}: {}", route.transport, route.chosen);
    for (const OtherTransport& other : route.others) {
      found += fmt::format("; not {}: {}", other.transport, other.reason);
    }
    add("verdict", Health::kOk, std::move(found));
  }

  const PeerInputs& inputs_;
  std::string address_;
  std::vector<tcp::SocketAddress> sockets_;
  NodeFacts facts_;
  bool is_same_host_ = false;
  std::vector<Finding> findings_;
};

}  // namespace

Reported<std::string> peer_address(std::string_view place) {
  std::string text(place);
  const auto colons = std::ranges::count(place, ':');
  const bool is_bracketed = place.starts_with('[');
  if (colons > 1 && !is_bracketed) text = fmt::format("[{}]", place);
  const bool has_port = is_bracketed ? place.find("]:") != std::string_view::npos : colons == 1;
  if (!has_port) text += fmt::format(":{}", kPeerPort);
  const auto target = client::parse_address("tcp:" + text);
  if (!target) {
    Report why = target.error();
    why.next = "write --peer HOST or --peer HOST:PORT";
    return report(std::move(why));
  }
  return target->text();
}

std::vector<Finding> examine_peer(const PeerInputs& inputs) {
  auto address = peer_address(inputs.place);
  if (!address) return {{"peer name", Health::kFail, address.error().what, address.error().next}};
  return PeerDoctor(inputs, std::move(*address)).run();
}

}  // namespace refract::node
