// SPDX-License-Identifier: Apache-2.0
// Where the clients of one host meet a node: the keeper's Unix socket. It hands each client the node page,
// memory for the client's rings, a doorbell and the regions, all as descriptors, and needs no server for it.
//
// The process that holds a Meeting must never die of its clients: every message is checked, every queue is
// bounded, and a client that breaks the rules loses only its own connection. Nothing here blocks.
//
// The server is a fork of the keeper, so it finds all attachments of its birth in attachments(); later ones
// reach it by the on_attach callback and whatever the keeper passes descriptors with (descriptors.h:
// send_message). In the child, adopt the attachments into a ServerDomain and then call abandon_in_child().
//
// Threads: one. Descriptors: all belong to the Meeting; callers duplicate what they keep.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/memory/remote_pointer.h"

namespace refract::fabric::shm {

// One attached client, as the server needs it. The descriptors stay the Meeting's.
struct Attachment {
  uint64_t id = 0;       // Never used twice by one keeper.
  int memory_fd = -1;    // The connection memory (connection_memory.h).
  int doorbell_fd = -1;  // The server's end. Hangs up when the client is gone.
  // Which process attached, as the kernel says, in this process's namespaces: for people. 0: not visible from
  // here.
  uint32_t process = 0;
  uint32_t user = 0;
};

// A region that clients may map and read.
struct RegionOffer {
  uint16_t region = 0;
  uint64_t base =
      0;  // In the node's space. A multiple of the region's page size, behind every earlier region.
  uint64_t bytes = 0;  // Populated: reading a hole would allocate it.
  int read_fd = -1;    // Made by read_only_descriptor (descriptors.h). Duplicated.
  RemoteKey key;       // What one-sided requests must show; see ServerDomain::serve_region.
};

struct MeetingOptions {
  std::string path;
  std::array<uint64_t, 2> identity{};  // The same for all shards of a node; zeros: drawn.
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
  uint16_t tcp_port = 0;                  // Where the node listens, for the node page.
  uint64_t space_bytes_max = 256 * kGiB;  // What every connection of a client reserves of its 47 bits.
  uint32_t connections_max = 1'024;       // Each takes kConnectionBytes (about half a MiB) of memory.
  // Of each connection: so many times kPinsMax pins. At most kPinTablesMax; those behind the first take
  // memory as they are used.
  uint32_t pin_tables = 1;
  uint32_t handshakes_max = 64;  // Clients that have connected and not yet said Hello; the oldest is dropped.
  uint64_t handshake_deadline_ns = 2 * kSecond_ns;
  uint32_t socket_mode = 0600;
  const Clock* clock = &system_clock();
  // Asked before each client is let in; what it reports is told to the client. None: all are.
  std::function<Reported<>()> admits = {};
  std::function<void(const Attachment&)> on_attach;
  std::function<void(uint64_t id)>
      on_detach;  // The client's control socket closed. Its descriptors close next.
};

class Meeting {
 public:
  // Listens at options.path. A missing directory is made (0700), a dead process's socket is removed. kInUse:
  // another node answers there.
  [[nodiscard]] static Reported<std::unique_ptr<Meeting>> open(MeetingOptions options);

  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting();

  // Readable when poll() has something to do, deadlines included.
  [[nodiscard]] int epoll_descriptor() const noexcept;
  // Serves what is ready, a bounded amount; the descriptor stays readable when there is more.
  void poll() noexcept;

  // The node page, writable. The server inherits the mapping by the fork.
  [[nodiscard]] NodePage& node_page() noexcept;

  // Before each fork of the server: raises the incarnation, says kStarting, tells the clients.
  void begin_incarnation() noexcept;
  // Sets the state and tells the clients. The server itself says kServing (ServerDomain::start_serving).
  void set_server_state(ServerState state) noexcept;
  void server_changed() noexcept;

  [[nodiscard]] Reported<> offer_region(const RegionOffer& offer);
  [[nodiscard]] std::vector<Attachment> attachments() const;
  [[nodiscard]] const std::string& path() const noexcept;

  // In the forked server, once everything is adopted: closes this process's copies of all descriptors, so
  // that a closed connection is seen closed by its client. The node page stays mapped, nothing else may be
  // called after.
  void abandon_in_child() noexcept;

  struct Counters {
    uint64_t accepted = 0;
    uint64_t attached = 0;
    uint64_t detached = 0;
    uint64_t refused_full = 0;
    uint64_t refused_version = 0;
    uint64_t refused_early = 0;  // Not admitted.
    uint64_t malformed = 0;      // Garbage, half messages, messages out of turn.
    uint64_t handshake_timeouts = 0;
    uint64_t flooded = 0;           // Asked again and again without reading the answers.
    uint64_t out_of_resources = 0;  // No descriptor or memory for one more connection.
  };
  [[nodiscard]] const Counters& counters() const noexcept;

 private:
  struct State;
  explicit Meeting(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace refract::fabric::shm
