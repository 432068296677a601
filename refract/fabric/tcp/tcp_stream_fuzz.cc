// SPDX-License-Identifier: Apache-2.0
// An established connection whose peer sends arbitrary bytes, over a real socket: requests to regions with
// and without rights, answers to requests that are outstanding. Nothing outside the writable region changes,
// messages are whole, aligned and within limits, and the end leaves nothing behind.
//
// Input: a byte that says what is outstanding, then chunks {length, bytes}, each sent by itself.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "refract/base/check.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/frame.h"

namespace {

using refract::Descriptor;
using refract::RemoteKey;
using refract::RemotePointer;
using refract::fabric::Completion;
using refract::fabric::Op;
using refract::fabric::Request;
using refract::fabric::tcp::ServerDomain;

constexpr size_t kRegionBytes = 16 * 1024;
constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};

// Keys that seeds can name; a fuzzer finds no random one.
constexpr RemoteKey kReadOnlyKey{0x0101010101010101};
constexpr RemoteKey kWritableKey{0x0202020202020202};

struct Guarded {
  std::vector<std::byte> bytes = std::vector<std::byte>(kRegionBytes + 2 * kGuardBytes, kGuard);
  [[nodiscard]] std::byte* inside() { return bytes.data() + kGuardBytes; }
  void check() const {
    const auto is_guard = [](std::byte each) { return each == kGuard; };
    REFRACT_CHECK(std::all_of(bytes.begin(), bytes.begin() + kGuardBytes, is_guard));
    REFRACT_CHECK(std::all_of(bytes.end() - kGuardBytes, bytes.end(), is_guard));
  }
};

class Node {
 public:
  Node() : domain_(std::move(ServerDomain::create().value())) {
    REFRACT_CHECK(domain_->serve_region(
        {.region = 1, .base = read_only.inside(), .bytes = kRegionBytes, .rights = {.read = true}},
        kReadOnlyKey));
    REFRACT_CHECK(domain_->serve_region({.region = 2,
                                         .base = writable.inside(),
                                         .bytes = kRegionBytes,
                                         .rights = {.read = true, .write = true, .atomic = true}},
                                        kWritableKey));
  }
  // Polls until nothing more comes. Every message is echoed, so that output fills up, too.
  void turn() {
    for (size_t count = 1; count > 0;) {
      count = domain_->poll(completions_);
      for (const Completion& each : std::span(completions_).first(count)) {
        if (each.op == Op::kOpened) channel = each.channel;
        if (each.op == Op::kClosed) channel = nullptr;
        if (each.op != Op::kReceive) continue;
        REFRACT_CHECK(each.bytes.size() <= refract::fabric::tcp::kMessageBytesMax);
        REFRACT_CHECK(reinterpret_cast<uintptr_t>(each.bytes.data()) % 8 == 0);
        // Posting only reads.
        auto* const data = const_cast<std::byte*>(each.bytes.data());  // NOLINT
        const Request echo{.local = {data, each.bytes.size()}, .tail = {}, .op = Op::kSend};
        REFRACT_CHECK(each.channel->post({&echo, 1}) == 1);
      }
      domain_->flush();
    }
  }
  [[nodiscard]] ServerDomain& domain() { return *domain_; }

  Guarded read_only;
  Guarded writable;
  Guarded local;
  refract::fabric::Channel* channel = nullptr;

 private:
  std::unique_ptr<ServerDomain> domain_;
  std::array<Completion, 16> completions_;
};

void post_requests(Node& node, uint8_t which) {
  for (unsigned i = 0; i < which % 5U && node.channel != nullptr; ++i) {
    const bool is_read = i % 2 == 0;
    const size_t bytes = is_read ? size_t{5} << (which >> 4U & 15U) % 12 : 8;
    const Request request{.token = i + 1,
                          .local = {node.local.inside(), std::min(bytes, kRegionBytes)},
                          .remote = {RemotePointer::at(1, 0), kReadOnlyKey},
                          .operand = 1,
                          .op = is_read ? Op::kRead : Op::kFetchAdd};
    (void)node.channel->post({&request, 1});
  }
  node.domain().flush();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static Node node;
  if (bytes == 0) return 0;
  std::array<int, 2> sockets{};
  REFRACT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()) == 0);
  Descriptor peer(sockets[0]);
  const std::vector<std::byte> before = node.read_only.bytes;
  node.domain().hand_over({Descriptor(sockets[1]), "fuzz"});
  node.turn();
  REFRACT_CHECK(node.channel != nullptr);
  post_requests(node, data[0]);
  std::span<const uint8_t> rest(data + 1, bytes - 1);
  std::array<std::byte, 64 * 1024> answers;
  while (!rest.empty()) {
    const size_t chunk = std::min<size_t>(rest[0], rest.size() - 1);
    (void)::send(peer.get(), rest.data() + 1, chunk, MSG_NOSIGNAL);
    rest = rest.subspan(1 + chunk);
    node.turn();
    (void)::recv(peer.get(), answers.data(), answers.size(), MSG_DONTWAIT);
  }
  peer = Descriptor();
  for (int i = 0; i < 1'000 && node.domain().connections() > 0; ++i) node.turn();
  REFRACT_CHECK(node.domain().connections() == 0 && node.domain().pending_bytes() == 0);
  REFRACT_CHECK(node.read_only.bytes == before);
  node.writable.check();
  node.local.check();
  return 0;
}
