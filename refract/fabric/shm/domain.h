// SPDX-License-Identifier: Apache-2.0
// The two ends of the shared-memory provider: ServerDomain for the server's shard, ClientDomain for a
// client's.
//
// A connection is one piece of memory with a ring each way (connection_memory.h). SEND and its peer's
// kReceive touch nothing else. One-sided requests travel over the same rings and are executed by the target's
// shard, in poll; only a READ whose bytes are mapped here, whose key is the offered one, and that overtakes
// nothing is done by the reader itself. Each end bounds and checks what the other writes: nonsense closes the
// connection with a counted reason.
//
// Waiting: a domain that announced its sleep is woken by a byte on a socket, which a SIGSTOP cannot lose.
// Threads: as in channel.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "refract/fabric/channel.h"
#include "refract/fabric/shm/meeting.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/memory/pins.h"
#include "refract/memory/uses.h"
#include "refract/memory/wide_pins.h"

namespace refract {
class CopyTeam;
}

namespace refract::fabric::shm {

// Why connections were closed by this end, and what waiting cost.
struct DomainCounters {
  uint64_t opened = 0;
  uint64_t closed = 0;
  uint64_t bad_frame = 0;       // A header outside ring, limits or kinds.
  uint64_t bad_position = 0;    // A consumed position that cannot be.
  uint64_t bad_completion = 0;  // An answer to nothing, or of the wrong length.
  uint64_t access_denied = 0;   // One-sided requests refused; the connection stays open.
  uint64_t doorbells_rung = 0;
  uint64_t doorbells_heard = 0;
};

// What clients may lend (loan.h). What is beyond is not mapped, so its READs are refused. Each loan costs the
// server a mapping, of which Linux grants a process 65,530, and no descriptor; the pages are the client's.
struct LoanLimits {
  size_t loans_max = 64;      // Of one client,
  uint64_t bytes_max = kGiB;  // likewise.
  size_t all_max = SIZE_MAX;  // Loans of all clients of the domain.

  // Of a shard whose clients fill objects: as many at a time as a session may have creations, and bytes up to
  // what all objects may have, where memory is lent by whole large pages and some is kept for what comes
  // next.
  static constexpr size_t kObjectLoansMax = 1'024;
  static constexpr uint64_t kObjectLoansBeside = kObjectLoansMax * 2 * kMiB + 64 * kMiB;
  [[nodiscard]] static constexpr LoanLimits of_objects(uint64_t objects_bytes_max) noexcept {
    return {
        .loans_max = kObjectLoansMax, .bytes_max = objects_bytes_max + kObjectLoansBeside, .all_max = 16'384};
  }
};

struct ServerOptions {
  NodePage* node_page = nullptr;  // Meeting::node_page(), inherited by the fork. Outlives the domain.
  LoanLimits loans = {};
  // Of long READs of what clients lend; it copies past the caches. Null: the domain's thread makes them
  // alone. Outlives the domain.
  CopyTeam* copies = nullptr;
};

class ServerDomain final : public Domain {
 public:
  // Serves the incarnation that the node page names now.
  [[nodiscard]] static Reported<std::unique_ptr<ServerDomain>> create(const ServerOptions& options);
  ServerDomain(const ServerDomain&) = delete;
  ServerDomain& operator=(const ServerDomain&) = delete;
  ~ServerDomain() override;

  // Takes a client in; kOpened comes when the client has set its rings to this incarnation. The descriptors
  // stay the caller's. Adopt every attachment before reclaiming anything: each may carry pins.
  [[nodiscard]] Reported<Channel*> adopt(const Attachment& attachment);
  // The client left the meeting. If it was open, kClosed comes. Unknown ids are ignored.
  void drop(uint64_t id) noexcept;
  [[nodiscard]] size_t connections() const noexcept;
  [[nodiscard]] static uint64_t connection_id(const Channel& channel) noexcept;

  // Publishes kServing and wakes every adopted client, so that clients that wait for this server reset their
  // rings.
  void start_serving() noexcept;

  // What clients hold. Valid as long as the domain.
  [[nodiscard]] PinSource& pins() noexcept;
  // What they have read since they were last asked. Likewise.
  [[nodiscard]] UseSource& uses() noexcept;

  // register_region with a key that was drawn before: the one offered to the clients by the Meeting, so that
  // it stays true across restarts.
  [[nodiscard]] Reported<> serve_region(const RegionSpec& spec, RemoteKey key);
  [[nodiscard]] const DomainCounters& counters() const noexcept;

  [[nodiscard]] std::string_view provider() const noexcept override { return "shm"; }
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept override;
  void flush() noexcept override;
  [[nodiscard]] Reported<RemoteKey> register_region(const RegionSpec& spec) override;
  uint64_t revoke_region(uint16_t region) noexcept override;
  [[nodiscard]] Reported<Channel*> connect(
      std::string_view address) override;  // kUnsupported: use a ClientDomain.
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override;
  [[nodiscard]] std::span<const int> wake_descriptors() const noexcept override;

 private:
  struct State;
  explicit ServerDomain(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

struct OfferedRegion {
  uint16_t region = 0;
  uint64_t base = 0;
  uint64_t bytes = 0;
  RemoteKey key;
};

struct ClientOptions {
  bool populate = true;  // Map regions with all page tables filled: slower to attach, no faults later.
};

class ClientDomain final : public Domain {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<ClientDomain>> create(const ClientOptions& options = {});
  ClientDomain(const ClientDomain&) = delete;
  ClientDomain& operator=(const ClientDomain&) = delete;
  ~ClientDomain() override;

  // `address` is the meeting's path. When the server dies, the channel completes what is outstanding with
  // kUnavailable, reports kClosed with value 1, still shows its local_view, and reports kOpened again when
  // the next server serves: the connection memory, and so every pin, is the same. kClosed with value 0 comes
  // when the keeper is gone or close() was called; the local view is unmapped by the poll after it.
  [[nodiscard]] Reported<Channel*> connect(std::string_view address) override;

  // Why the last connection failed or closed, for a person.
  [[nodiscard]] const Report& last_refusal() const noexcept;
  // These are for channels of this domain that have opened once. The node page never changes its address, the
  // regions are those mapped by now.
  [[nodiscard]] const NodePage* node_page(const Channel& channel) const noexcept;
  [[nodiscard]] std::span<const OfferedRegion> regions(const Channel& channel) const noexcept;
  [[nodiscard]] PinWriter& pins(Channel& channel) noexcept;
  // The same, and all tables behind it that the connection has.
  [[nodiscard]] WidePins& wide_pins(Channel& channel) noexcept;
  [[nodiscard]] UseWriter& uses(Channel& channel) noexcept;
  [[nodiscard]] uint64_t connection_id(const Channel& channel) const noexcept;
  [[nodiscard]] const DomainCounters& counters() const noexcept;

  [[nodiscard]] std::string_view provider() const noexcept override { return "shm"; }
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept override;
  void flush() noexcept override;
  [[nodiscard]] Reported<RemoteKey> register_region(const RegionSpec& spec) override;
  uint64_t revoke_region(uint16_t region) noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override;
  [[nodiscard]] std::span<const int> wake_descriptors() const noexcept override;

 private:
  struct State;
  explicit ClientDomain(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace refract::fabric::shm
