// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/socket_crowd.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "bench/load/entry.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/kv/layout/wire.h"
#include "refract/rpc/message.h"

namespace refract::bench {
namespace {

namespace tcp = fabric::tcp;

constexpr int kPatience_ms = 10'000;
constexpr std::string_view kRedisHead = "*2\r\n$3\r\nGET\r\n$16\r\n";
constexpr std::string_view kRedisAnswer = "$64\r\n";
constexpr std::string_view kRedisEnd = "\r\n";

template <typename T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A call of kGet in its frame, with room for a key at its end.
std::string refract_question() {
  const kv::wire::KeyRef key = {.key_bytes = sizeof(Key), .staged = 0, .flags = 0, .value_bytes = 0};
  const rpc::MessageHeader header = {.id = 1,
                                     .method = static_cast<uint16_t>(kv::wire::Method::kGet),
                                     .code = 0,
                                     .bytes = sizeof(key) + sizeof(Key)};
  const tcp::FrameHeader frame = {.bytes = sizeof(header) + header.bytes, .kind = tcp::FrameKind::kMessage};
  static_assert((sizeof(header) + sizeof(key) + sizeof(Key)) % 8 == 0, "else zeros follow");
  std::string question(bytes_of(frame.word()));
  question += bytes_of(header);
  question += bytes_of(key);
  question.append(sizeof(Key), '\0');
  return question;
}

Reported<> wait_to_read(const Descriptor& socket) {
  pollfd wanted = {.fd = socket.get(), .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, kPatience_ms) == 1) return {};
  return report(Code::kUnavailable, "the server says nothing");
}

Reported<> wait_for_frame(const Descriptor& socket, tcp::HandshakeReader& reader, tcp::FrameKind kind) {
  using Progress = tcp::HandshakeReader::Progress;
  reader.reset();
  Progress progress = Progress::kMore;
  while (progress == Progress::kMore) {
    if (const Reported<> ready = wait_to_read(socket); !ready) return ready;
    progress = reader.read(socket.get());
  }
  if (progress == Progress::kFrame && reader.kind() == kind) return {};
  if (progress == Progress::kFrame && reader.kind() == tcp::FrameKind::kRefused) {
    if (const auto refused = reader.frame<tcp::Refused>()) return report(tcp::refused_from_wire(*refused));
  }
  return report(Code::kMalformed, "the node broke the handshake off");
}

// As a client without a secret.
Reported<> shake_hands(const Descriptor& socket) {
  tcp::Hello hello = {.magic = tcp::kWireMagic,
                      .version = tcp::kWireVersion,
                      .version_oldest = tcp::kWireVersionOldest,
                      .shard = 0,
                      .role = 0,
                      .nonce = {}};
  secure_random(hello.nonce);
  tcp::HandshakeReader reader;
  if (!tcp::send_handshake(socket.get(), tcp::FrameKind::kHello, hello) ||
      !wait_for_frame(socket, reader, tcp::FrameKind::kChallenge) ||
      !tcp::send_handshake(socket.get(), tcp::FrameKind::kProof, tcp::Proof{})) {
    return report(Code::kUnavailable, "the node does not shake hands");
  }
  return wait_for_frame(socket, reader, tcp::FrameKind::kWelcome);
}

}  // namespace

Reported<SocketCrowd> SocketCrowd::connect(CrowdSide side, uint16_t port, size_t count, uint64_t entries) {
  SocketCrowd crowd(side, entries);
  crowd.epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!crowd.epoll_) return report(Code::kSystem, "cannot make an epoll: " + errno_text(errno));
  if (side == CrowdSide::kRefract) {
    crowd.question_ = refract_question();
    crowd.key_at_ = crowd.question_.size() - sizeof(Key);
  } else {
    crowd.question_ = std::string(kRedisHead) + std::string(sizeof(Key), '\0') + std::string(kRedisEnd);
    crowd.key_at_ = kRedisHead.size();
    crowd.value_at_ = kRedisAnswer.size();
    crowd.answer_bytes_ = kRedisAnswer.size() + sizeof(Value) + kRedisEnd.size();
  }
  crowd.talks_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (const Reported<> joined = crowd.join(port); !joined) {
      return report(joined.error().code, fmt::format("connection {}: {}", i, joined.error().what));
    }
  }
  return crowd;
}

Reported<> SocketCrowd::join(uint16_t port) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
  if (!socket) return report(socket.error());
  if (side_ == CrowdSide::kRefract) {
    if (const Reported<> met = shake_hands(*socket); !met) return met;
  }
  Talk& talk = talks_.emplace_back();
  talk.socket = std::move(*socket);
  if (answer_bytes_ == 0) {
    if (const Reported<> learnt = learn(talk); !learnt) return learnt;
  }
  talk.answer.resize(answer_bytes_);
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = talks_.size() - 1}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, talk.socket.get(), &event) != 0) {
    return report(Code::kSystem, "cannot watch a socket: " + errno_text(errno));
  }
  // What a server keeps for a connection it may take with its first call.
  if (const Reported<> asked = ask(talk, 0); !asked) return asked;
  for (;;) {
    if (const Reported<> ready = wait_to_read(talk.socket); !ready) return ready;
    const Reported<bool> whole = hear(talk);
    if (!whole) return report(whole.error());
    if (*whole) return finish(talk);
  }
}

Reported<> SocketCrowd::learn(Talk& talk) {
  if (const Reported<> asked = ask(talk, 1); !asked) return asked;
  uint64_t word = 0;
  if (const Reported<> ready = wait_to_read(talk.socket); !ready) return ready;
  // Such an answer comes in one piece: it is the first on its connection.
  std::string answer(4 * kKiB, '\0');
  const ssize_t got = ::recv(talk.socket.get(), answer.data(), answer.size(), 0);
  if (got < static_cast<ssize_t>(sizeof(word))) return report(Code::kUnavailable, "the node hung up");
  answer.resize(static_cast<size_t>(got));
  std::memcpy(&word, answer.data(), sizeof(word));
  const Value value = Value::of(1);
  value_at_ = answer.find(value.text());
  if (tcp::frame_bytes(tcp::FrameHeader::from(word).bytes) != answer.size() ||
      value_at_ == std::string::npos) {
    return report(Code::kMalformed, "a get's first answer is not what it should be");
  }
  answer_bytes_ = answer.size();
  return {};
}

Reported<> SocketCrowd::ask(Talk& talk, uint64_t index) {
  const Key key = Key::of(index);
  std::memcpy(question_.data() + key_at_, &key, sizeof(key));
  talk.index = index;
  talk.received = 0;
  talk.asked_ticks = ticks_before();
  // A socket with nothing under way takes so few bytes whole.
  const ssize_t sent = ::send(talk.socket.get(), question_.data(), question_.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(question_.size())) return {};
  return report(Code::kUnavailable, "a connection broke: " + errno_text(errno));
}

Reported<bool> SocketCrowd::hear(Talk& talk) {
  const ssize_t got = ::recv(talk.socket.get(), talk.answer.data() + talk.received,
                             answer_bytes_ - talk.received, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) return report(Code::kUnavailable, "the server hung up");
  talk.received += static_cast<size_t>(got);
  return talk.received == answer_bytes_;
}

Reported<> SocketCrowd::finish(Talk& talk) {
  const Value value = Value::of(talk.index);
  if (std::memcmp(talk.answer.data() + value_at_, &value, sizeof(value)) == 0) return {};
  return report(Code::kCorrupt, "a get brought another entry's bytes");
}

Reported<CrowdTurn> SocketCrowd::run(const Timer& timer, double seconds, uint64_t seed) {
  CrowdTurn turn;
  Draw draw(seed, entries_);
  std::vector<epoll_event> events(talks_.size());
  const uint64_t start_ns = now_ns();
  const uint64_t end_ns = start_ns + static_cast<uint64_t>(seconds * 1e9);
  for (Talk& talk : talks_) {
    if (const Reported<> asked = ask(talk, draw.next()); !asked) return report(asked.error());
  }
  uint64_t time_ns = start_ns;
  for (size_t in_flight = talks_.size(); in_flight > 0;) {
    const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    time_ns = now_ns();
    if (ready <= 0) {
      if (time_ns < end_ns + uint64_t{kPatience_ms} * kMillisecond_ns) continue;
      return report(Code::kDeadlineExceeded, fmt::format("{} gets were never answered", in_flight));
    }
    ++turn.rounds;
    for (size_t i = 0; i < static_cast<size_t>(ready); ++i) {
      Talk& talk = talks_[events[i].data.u64];
      const Reported<bool> whole = hear(talk);
      if (!whole) return report(whole.error());
      if (!*whole) continue;
      turn.latency_ns.record(static_cast<uint64_t>(timer.ns(ticks_after() - talk.asked_ticks)));
      ++turn.operations;
      if (const Reported<> right = finish(talk); !right) return report(right.error());
      if (time_ns >= end_ns) {
        --in_flight;
      } else if (const Reported<> asked = ask(talk, draw.next()); !asked) {
        return report(asked.error());
      }
    }
  }
  turn.seconds = static_cast<double>(time_ns - start_ns) * 1e-9;
  return turn;
}

Reported<> allow_descriptors(uint64_t count) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= count) return {};
  const rlimit wanted = {.rlim_cur = count, .rlim_max = std::max<rlim_t>(limit.rlim_max, count)};
  if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) return {};
  return report(Code::kUnsupported,
                fmt::format("{} descriptors are needed, and the limit is {}", count, limit.rlim_max),
                fmt::format("raise it: ulimit -Hn {}, as root; or measure fewer connections", count));
}

}  // namespace refract::bench
