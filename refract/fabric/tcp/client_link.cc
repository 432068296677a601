// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/client_link.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "refract/base/clock.h"

namespace refract::fabric::tcp {
namespace {

// What another attempt could change.
bool is_worth_another_attempt(Code code) noexcept {
  return code == Code::kUnavailable || code == Code::kOverloaded || code == Code::kSystem;
}

// A node of before the roles must not take a node for a client.
uint16_t oldest_version(Role role) noexcept {
  return role == Role::kClient ? kWireVersionOldest : std::max(kWireVersionOldest, kWireVersionOfRoles);
}

// In the words of each role.
const char* secret_name(Role role) noexcept {
  return role == Role::kNode ? "cluster secret" : "secret";
}
const char* how_to_share(Role role) noexcept {
  return role == Role::kNode
             ? "give all nodes of the list the same secret (cluster.secret_file)"
             : "name a copy of the node's secret file: secret_file=PATH, or REFRACT_SECRET_FILE";
}

uint64_t now_ns() noexcept {
  return system_clock().now_ns();
}

uint64_t after(uint64_t ns) noexcept {
  const uint64_t now = now_ns();
  return ns > kForever_ns - now ? kForever_ns : now + ns;
}

}  // namespace

Reported<NodeAddress> parse_node_address(std::string_view text) {
  NodeAddress address{.text = std::string(text), .place = {}, .shard = 0};
  const size_t slash = text.rfind('/');
  if (slash != std::string_view::npos) {
    const std::string_view shard = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(shard.data(), shard.data() + shard.size(), address.shard);
    if (error != std::errc() || end != shard.data() + shard.size()) {
      return report(Code::kInvalidArgument,
                    fmt::format("'{}' is no TCP address: '{}' is no shard", text, shard),
                    "write HOST:PORT/SHARD with a number, or HOST:PORT");
    }
  }
  auto place = split_address(text.substr(0, slash));
  if (!place) return report(place.error());
  address.place = std::move(*place);
  return address;
}

void ClientLink::begin() noexcept {
  candidate_ = 0;
  attempt();
}

void ClientLink::attempt() noexcept {
  const SocketAddress& to = candidates_[candidate_];
  stage_ = Stage::kConnect;
  reader_.reset();
  attempt_ = Descriptor(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt_) {
    return attempt_failed({Code::kSystem, fmt::format("cannot make a socket: {}", errno_text(errno)),
                           "raise the limit on open files (ulimit -n)"});
  }
  tune(attempt_.get());
  if (::connect(attempt_.get(), to.get(), to.bytes) != 0 && errno != EINPROGRESS) {
    return attempt_failed(
        {Code::kUnavailable,
         fmt::format("cannot reach {} ({}): {}", address_.text, to.text(), errno_text(errno)),
         "check that the node runs and listens there"});
  }
  if (!hub().watch(attempt_.get(), *this)) {
    return attempt_failed({Code::kSystem, fmt::format("cannot watch a socket: {}", errno_text(errno)), ""});
  }
  due_ns_ = after(options_.connect_timeout_ns);
}

void ClientLink::stop_attempt() noexcept {
  if (attempt_) hub().unwatch(attempt_.get());
  attempt_ = Descriptor();
  stage_ = Stage::kNone;
  due_ns_ = kForever_ns;
}

void ClientLink::attempt_failed(Report why) noexcept {
  stop_attempt();
  refusal_ = std::move(why);
  if (!is_worth_another_attempt(refusal_.code)) return give_up(refusal_);
  if (candidate_ + 1 < candidates_.size()) {
    ++candidate_;
    return attempt();
  }
  if (!was_open_) return give_up(refusal_);
  if (options_.reconnect_for_ns != kForever_ns && now_ns() - lost_ns_ >= options_.reconnect_for_ns) {
    return give_up(refusal_);
  }
  stage_ = Stage::kPause;
  // Half of it by chance, so that the clients of a node that died do not come back all at once.
  due_ns_ = after(pause_ns_ / 2 + prng_.below(pause_ns_ / 2 + 1));
  pause_ns_ = std::min(2 * pause_ns_, kPauseLongest_ns);
}

void ClientLink::give_up(Report why) noexcept {
  stop_attempt();
  refusal_ = std::move(why);
  has_verdict_ = true;
}

Completion ClientLink::take_verdict() noexcept {
  has_verdict_ = false;
  set_phase(Phase::kDead);
  if (was_open_) return {.channel = this, .bytes = {}, .op = Op::kClosed};
  const Code code = refusal_.code == Code::kSystem ? Code::kUnavailable : refusal_.code;
  return {.channel = this, .bytes = {}, .op = Op::kOpened, .code = code};
}

void ClientLink::close() noexcept {
  if (phase() == Phase::kUnborn || phase() == Phase::kWaiting) {
    if (!has_verdict_) give_up({Code::kUnavailable, "the channel was closed by its owner", ""});
    return;
  }
  Connection::close();
}

void ClientLink::hear(uint32_t events) noexcept {
  if (is_attempting()) return step();
  Connection::hear(events);
}

void ClientLink::due() noexcept {
  if (stage_ == Stage::kPause) return begin();
  if (!is_attempting()) return;
  attempt_failed({Code::kUnavailable,
                  fmt::format("{} did not answer within {} ms", address_.text,
                              options_.connect_timeout_ns / kMillisecond_ns),
                  "check that the node runs, and that no firewall drops its packets"});
}

void ClientLink::step() noexcept {
  if (stage_ == Stage::kConnect) {
    if (auto done = connected(); !done) return attempt_failed(done.error());
    if (stage_ == Stage::kConnect) return;
  }
  while (is_attempting()) {
    switch (reader_.read(attempt_.get())) {
      case HandshakeReader::Progress::kMore:
        return;
      case HandshakeReader::Progress::kEnded:
        return attempt_failed({Code::kUnavailable, fmt::format("{} hung up in the handshake", address_.text),
                               "try again; the node may be starting or stopping"});
      case HandshakeReader::Progress::kNonsense:
        return attempt_failed({Code::kMalformed,
                               fmt::format("what answers at {} is no Refract node", address_.text),
                               "check host and port"});
      case HandshakeReader::Progress::kFrame:
        break;
    }
    if (auto taken = take_frame(); !taken) return attempt_failed(taken.error());
  }
}

// Of a connect that was begun: sends Hello once it is through.
Reported<> ClientLink::connected() noexcept {
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (::getsockopt(attempt_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == 0 && peer_address(attempt_.get()).bytes == 0) {
    if (errno == ENOTCONN) return {};  // Not yet.
    error = errno;
  }
  if (error != 0) {
    return report(Code::kUnavailable,
                  fmt::format("cannot reach {} ({}): {}", address_.text, candidates_[candidate_].text(),
                              errno_text(error)),
                  "check that the node runs and listens there");
  }
  Hello hello{.magic = kWireMagic,
              .version = kWireVersion,
              .version_oldest = oldest_version(options_.role),
              .shard = address_.shard,
              .role = static_cast<uint32_t>(options_.role),
              .nonce = {}};
  secure_random(hello.nonce);
  transcript_ = {.client_nonce = hello.nonce,
                 .node_nonce = {},
                 .version = 0,
                 .client_version = kWireVersion,
                 .client_version_oldest = oldest_version(options_.role),
                 .shard = address_.shard,
                 .role = options_.role};
  if (!send_handshake(attempt_.get(), FrameKind::kHello, hello)) {
    return report(Code::kUnavailable, fmt::format("{} hung up in the handshake", address_.text));
  }
  stage_ = Stage::kChallenge;
  return {};
}

Reported<> ClientLink::take_frame() {
  const auto nonsense = [this] {
    return report(Code::kMalformed, fmt::format("what answers at {} is no Refract node", address_.text),
                  "check host and port");
  };
  if (reader_.kind() == FrameKind::kRefused) {
    const auto refused = reader_.frame<Refused>();
    if (!refused) return nonsense();
    Report why = refused_from_wire(*refused);
    why.what = fmt::format("{} refused: {}", address_.text, why.what);
    return report(std::move(why));
  }
  if (stage_ == Stage::kChallenge && reader_.kind() == FrameKind::kChallenge) {
    const auto challenge = reader_.frame<Challenge>();
    return challenge ? take_challenge(*challenge) : nonsense();
  }
  if (stage_ == Stage::kWelcome && reader_.kind() == FrameKind::kWelcome) {
    const auto welcome = reader_.frame<Welcome>();
    return welcome ? take_welcome(*welcome) : nonsense();
  }
  return nonsense();
}

Reported<> ClientLink::take_challenge(const Challenge& challenge) {
  const uint16_t oldest = oldest_version(options_.role);
  if (challenge.version < oldest || challenge.version > kWireVersion) {
    return report(Code::kUnsupported,
                  fmt::format("{} chose version {} of the TCP wire, this client speaks {}", address_.text,
                              challenge.version, versions_text(oldest, kWireVersion)),
                  "update the client");
  }
  if (challenge.secret_wanted != 0 && options_.secret == nullptr) {
    return report(
        Code::kAccessDenied,
        fmt::format("{} wants a {}, and this client has none", address_.text, secret_name(options_.role)),
        how_to_share(options_.role));
  }
  if (challenge.secret_wanted == 0 && options_.secret != nullptr) {
    return report(Code::kAccessDenied,
                  fmt::format("{} asks for no {}, so it may not be the node you mean", address_.text,
                              secret_name(options_.role)),
                  options_.role == Role::kNode
                      ? how_to_share(options_.role)
                      : "give the node its secret (auth.secret_file), or the client none");
  }
  transcript_.version = challenge.version;
  transcript_.node_nonce = challenge.nonce;
  Proof proof{};
  if (options_.secret != nullptr) proof.mac = client_mac(*options_.secret, transcript_);
  if (!send_handshake(attempt_.get(), FrameKind::kProof, proof)) {
    return report(Code::kUnavailable, fmt::format("{} hung up in the handshake", address_.text));
  }
  stage_ = Stage::kWelcome;
  reader_.reset();
  return {};
}

Reported<> ClientLink::take_welcome(const Welcome& welcome) {
  if (options_.secret != nullptr &&
      !is_same(welcome.mac, node_mac(*options_.secret, transcript_, welcome.facts))) {
    return report(Code::kAccessDenied,
                  fmt::format("{} does not know the {}", address_.text, secret_name(options_.role)),
                  "it is not the node you mean: check the address, and who else may listen there");
  }
  auto facts = facts_from_wire(welcome.facts);
  if (!facts) return report(Code::kMalformed, fmt::format("{} sent facts that cannot be", address_.text));
  if (was_open_ && (facts->identity != facts_.identity || facts->shard_count != facts_.shard_count)) {
    return report(
        Code::kInvalidated,
        fmt::format("another node answers at {} than before: its memory is a new one", address_.text),
        "connect again");
  }
  facts_ = std::move(*facts);
  hub().unwatch(attempt_.get());
  stage_ = Stage::kNone;
  due_ns_ = kForever_ns;
  if (!start(std::move(attempt_))) {
    return report(Code::kSystem, fmt::format("cannot watch a socket: {}", errno_text(errno)));
  }
  was_open_ = true;
  opened_ns_ = now_ns();
  return {};
}

void ClientLink::peer_lost() noexcept {
  ++hub().counters.lost;
  refusal_ = {Code::kUnavailable, fmt::format("the connection to {} was lost", address_.text),
              "it is tried again; check that the node runs"};
  begin_closing(/*reconnecting=*/options_.reconnect_for_ns > 0);
}

void ClientLink::peer_left() noexcept {
  refusal_ = {Code::kUnavailable, fmt::format("{} closed the connection", address_.text), "connect again"};
  begin_closing(false);
}

void ClientLink::begin_waiting() noexcept {
  lost_ns_ = now_ns();
  if (lost_ns_ - opened_ns_ >= kWellAfter_ns) pause_ns_ = kPauseFirst_ns;
  stage_ = Stage::kPause;
  // The server that takes over from a dead one is up within milliseconds.
  due_ns_ = after(prng_.below(pause_ns_ + 1));
  pause_ns_ = std::min(2 * pause_ns_, kPauseLongest_ns);
}

}  // namespace refract::fabric::tcp
