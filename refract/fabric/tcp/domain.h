// SPDX-License-Identifier: Apache-2.0
// The two ends of the TCP provider: ServerDomain for a server's shard, ClientDomain for a client's.
//
// A channel is one socket. What is posted in a turn leaves in one system call in flush; the bytes of large
// READs and WRITEs are gathered from where they lie and received straight into their place. One-sided
// requests are executed by the target's shard, in poll. Each end bounds and checks what the other sends:
// nonsense closes the connection with a counted reason. The wire form is docs/formats/tcp.md, the reasons are
// docs/design/010-tcp.md.
//
// Waiting: one epoll descriptor a domain. A peer that vanished is noticed within 10 to 20 seconds (tuning.h).
// Threads: as in channel.h, except ServerDomain::hand_over and connections(), which any thread may call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/tcp/facts.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {

// Why connections were closed by this end, and what moving the bytes cost.
struct DomainCounters {
  uint64_t opened = 0;
  uint64_t closed = 0;
  uint64_t lost = 0;            // Of those closed: ended without a goodbye.
  uint64_t bad_frame = 0;       // A header outside limits or kinds.
  uint64_t bad_completion = 0;  // An answer to nothing, or of the wrong length.
  uint64_t access_denied = 0;   // One-sided requests refused; the connection stays open.
  uint64_t sends = 0;           // System calls.
  uint64_t receives = 0;        // System calls that brought something.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

// A socket whose peer has proven itself and has had its Welcome.
struct Admitted {
  Descriptor socket;
  std::string peer;  // For people.
  Role role = Role::kClient;
};

class Hub;

struct ServerOptions {
  // Above this, what waits for peers that do not read is no longer added to: their requests stay in their
  // sockets.
  uint64_t output_bytes_max = 256 * kMiB;
};

// What both ends have.
class TcpDomain : public Domain {
 public:
  // register_region with a key that was drawn before.
  [[nodiscard]] Reported<> serve_region(const RegionSpec& spec, RemoteKey key);
  [[nodiscard]] const DomainCounters& counters() const noexcept;
  // Memory that holds bytes on their way, of all connections; see ServerOptions::output_bytes_max.
  [[nodiscard]] uint64_t pending_bytes() const noexcept;

  [[nodiscard]] std::string_view provider() const noexcept override { return "tcp"; }
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept override;
  void flush() noexcept override;
  [[nodiscard]] Reported<RemoteKey> register_region(const RegionSpec& spec) override;
  uint64_t revoke_region(uint16_t region) noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override;
  [[nodiscard]] std::span<const int> wake_descriptors() const noexcept override;

 protected:
  explicit TcpDomain(Hub& hub) noexcept : hub_(hub) {}

 private:
  Hub& hub_;  // The state of the derived domain.
};

class ServerDomain final : public TcpDomain {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ServerDomain>> create(const ServerOptions& options = {});
  ServerDomain(const ServerDomain&) = delete;
  ServerDomain& operator=(const ServerDomain&) = delete;
  // Closes every connection without a goodbye, so that clients look for the next server.
  ~ServerDomain() override;

  // Any thread. The connection is this shard's from now on: it is woken, and kOpened follows.
  void hand_over(Admitted admitted) noexcept;
  // Any thread: those handed over and not yet closed.
  [[nodiscard]] size_t connections() const noexcept;
  // "10.0.0.7:41234". Of a channel of this domain.
  [[nodiscard]] static std::string peer_of(const Channel& channel);
  // As what its peer has proven itself. Of a channel of this domain.
  [[nodiscard]] static Role role_of(const Channel& channel) noexcept;

  [[nodiscard]] Reported<Channel*> connect(
      std::string_view address) override;  // kUnsupported: use a ClientDomain.

 private:
  struct State;
  explicit ServerDomain(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

struct ClientOptions {
  const Secret* secret =
      nullptr;  // Of the role. Null: none, which is for clients alone. Outlives the domain.
  Role role = Role::kClient;
  uint64_t connect_timeout_ns = 5 * kSecond_ns;  // For one attempt: until Welcome.
  // A channel that was open and lost its peer tries so long to come back; then its last kClosed comes.
  uint64_t reconnect_for_ns = kForever_ns;
};

class ClientDomain final : public TcpDomain {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ClientDomain>> create(const ClientOptions& options = {});
  ClientDomain(const ClientDomain&) = delete;
  ClientDomain& operator=(const ClientDomain&) = delete;
  ~ClientDomain() override;

  // "host:port" or "host:port/SHARD"; without a shard it is 0. A host that is no number is looked up here and
  // now, which may wait. Until the first kOpened one round of attempts is made, whose failure is reported by
  // it: kUnavailable no node answers, kAccessDenied the secrets differ, kUnsupported another version,
  // kOverloaded the node has too many connections, kMalformed no node of ours. A channel that was open and
  // loses its peer reports kClosed with value 1 and tries again with growing pauses; the last kClosed comes
  // when close() was called, the peer said goodbye, reconnect_for_ns has passed, or another node answers at
  // the address.
  [[nodiscard]] Reported<Channel*> connect(std::string_view address) override;

  // Why the last connection failed or closed, for a person.
  [[nodiscard]] const Report& last_refusal() const noexcept;
  // These are for channels of this domain, until the poll behind the one with their last completion.
  // Why this one failed or was lost; kOk: neither.
  [[nodiscard]] const Report& refusal_of(const Channel& channel) const noexcept;
  // Those of the last Welcome.
  [[nodiscard]] const NodeFacts& facts(const Channel& channel) const noexcept;
  // The kernel's smoothed estimate; 0 while the channel is not open. A system call.
  [[nodiscard]] uint64_t round_trip_ns(const Channel& channel) const noexcept;
  // "10.0.0.7:7400", as connected; empty while it is not.
  [[nodiscard]] std::string peer_of(const Channel& channel) const;

  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;

 private:
  struct State;
  explicit ClientDomain(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace refract::fabric::tcp
