// SPDX-License-Identifier: Apache-2.0
// What goes into the calls of a Client and comes out of them: client.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/result.h"

namespace refract {

class Reservation;

// Any bytes, lent for the duration of a call.
class Bytes : public std::span<const std::byte> {
 public:
  using span::span;
  constexpr Bytes(std::span<const std::byte> bytes) noexcept : span(bytes) {}
  Bytes(std::string_view text) noexcept : span(std::as_bytes(std::span(text))) {}
  Bytes(const std::string& text) noexcept : Bytes(std::string_view(text)) {}
  Bytes(const char* text) noexcept : Bytes(std::string_view(text)) {}

  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(data()), size()};
  }
};

enum class Paths : uint8_t {
  kAuto,  // What reads does so directly where it can, what writes goes to the server.
  kRpc,   // Everything goes to the server: for comparisons and tests.
  // Gets, and puts of entries that are there, go by PRISM chains, which the server's software NIC executes:
  // one or two round trips, without the server's own code. What chains cannot do goes to the server.
  kChain,
};

struct ClientOptions {
  uint64_t timeout_ns =
      5'000'000'000;  // Of one call with all its attempts; of a long value or many keys, of each message.
  Paths paths = Paths::kAuto;
  bool populate = true;  // Fill the page tables when mapping: slower to connect, no page faults later.
  // Where the secret lies that nodes beyond this host ask for. Empty: what the address says, else the file
  // that the environment names in REFRACT_SECRET_FILE, else there is none.
  std::string secret_file = {};
  // The RDMA device by which nodes are reached: its name, "auto" (one that works) or "none". Empty: what the
  // address says, else the environment in REFRACT_RDMA_DEVICE, else "auto". A name that this host does not
  // have is refused wherever RDMA might be taken.
  std::string rdma_device = {};
  // Asked by each call of a key that waits, on the calling thread: for how many nanoseconds it may do so
  // until this is asked again, which is done after each signal, too. 0: the call ends at once, a read with
  // kDeadlineExceeded, a write with kIndeterminate. So a binding lets signals end calls, and calls have a
  // timeout of their own that is shorter than timeout_ns. It must not call this Client. Null: nothing is
  // asked.
  uint64_t (*may_wait_ns)() = nullptr;
  // How many threads may copy one value of 4 MiB or more that is read from the node's memory, the caller
  // among them and up to 16. The others are this Client's own; they are started and used only while cores are
  // free, and as long as it makes such copies faster here. 1: the caller alone.
  unsigned copy_threads = 4;
};

// Makes a write recognisable when it is repeated: Client::new_request() draws them.
struct RequestId {
  uint64_t client = 0;  // 0: the write has no identity.
  uint64_t sequence = 0;
  // The write may have been sent before by another Client or process, so that this one does not remember.
  bool sent_before = false;
};

struct PutOptions {
  // At most one of the two conditions, else kInvalidArgument.
  bool if_absent = false;   // Else kExists.
  uint64_t if_version = 0;  // The present version must be this one, else kVersionMismatch (kNotFound).
  uint64_t ttl_ns = 0;      // The entry is gone after this time, by the node's clock; 0: it stays.
  // A put that carries an identity and is repeated with it is executed once: it answers with what became of
  // the first try, or with kIndeterminate where the outcome cannot be known any more. Conditional puts draw
  // one by themselves.
  RequestId request = {};
  // Where the value was built, if it was: it lies in this reservation, whole. See Client::reserve().
  const Reservation* built_in = nullptr;
  // Stands in front of the value: what is put is both, as if they lay together. So a header needs no copy of
  // what it is about. Not beside `built_in`, and not of multi_put(): kInvalidArgument.
  Bytes front = {};
};

// What is known of an entry beside its bytes.
struct Got {
  uint64_t version = 0;  // Never 0 for an entry; every write makes a greater one.
  uint64_t value_bytes = 0;
  uint64_t expires_wall_ns = 0;  // Nanoseconds since 1970, by the store's own time; 0: never.
};

struct ScanEntry {
  std::string key;
  uint64_t version = 0;
  uint64_t value_bytes = 0;
};
struct ScanPage {
  std::vector<ScanEntry> entries;  // May be empty although more follows.
  uint64_t next = 0;               // The next page's cursor; 0: this was the last.
};

struct GetItem {
  Bytes key;
  std::string value = {};  // Its memory is used again.
  Result<Got> result = fail(Code::kUnavailable);
};
struct GetIntoItem {
  Bytes key;
  std::span<std::byte> buffer;  // Of another outcome than kOk and kTooLarge it may have anything in it.
  // kTooLarge: the value is longer than the buffer, which is as it was (or the key is too long).
  Result<Got> result = fail(Code::kUnavailable);
  uint64_t value_bytes =
      0;  // How long the value is, where that is known: of kOk, and of a value that is too long.
};
struct ExistsItem {
  Bytes key;
  Result<Got> result = fail(Code::kUnavailable);  // kNotFound, or what is there.
};
struct PutItem {
  Bytes key;
  Bytes value;
  PutOptions options = {};
  Result<uint64_t> result = fail(Code::kUnavailable);
};

// A transport that could have been taken, and why it was not.
struct OtherTransport {
  std::string transport;
  std::string reason;
};

// One of the nodes among which a store's keys are shared out.
struct RouteNode {
  std::string name;
  std::string address;
  std::string transport;    // Empty: no operation has needed it yet.
  bool is_reached = false;  // Now.
  uint32_t shards = 0;
  bool direct = false;  // As Route has it; likewise the next.
  std::string reason;
};

// Where requests go, and why.
struct Route {
  std::string transport;  // "shm", "verbs" or "tcp".
  std::string address;
  std::string device;                  // verbs: this host's, with port, both addresses and MTU. Else empty.
  std::string chosen;                  // Why this transport.
  std::vector<OtherTransport> others;  // Empty where the address left no choice.
  uint32_t shards = 0;                 // Of the node; what follows is of the first, or of all together.
  uint32_t shards_reached = 0;
  bool direct = false;  // Reads take nothing of the server: plain loads, or READs by a device.
  bool chain = false;   // Reads, and writes as far as they can, are chains.
  std::string reason;   // Why they are, or are not.
  std::string server;   // "serving", "restarting", ...
  uint64_t incarnation = 0;
  uint64_t server_pid = 0;  // As the node sees it.
  uint64_t mapped_bytes = 0;
  uint64_t regions = 0;
  std::vector<RouteNode> nodes;  // All, where the keys are shared out among several; what stands above is of
                                 // the one that the address led to. Else empty.
};

// A node that belongs together with others.
struct ClusterMember {
  std::string name;
  std::string address;  // Where it is reached over TCP: "10.0.0.7:7400", "[fd00::2]:7400".
};
// The list of nodes, as one of them has it.
struct ClusterMembers {
  uint64_t version = 0;                // A newer list has a higher one.
  std::vector<ClusterMember> members;  // In the order of their names.
  size_t self = 0;                     // The index of the node that was asked.
};

// Of all shards together.
struct NodeStat {
  uint64_t uptime_ns = 0;  // Of the server.
  uint64_t connections = 0;
  uint64_t entries = 0;
  uint64_t expiring_entries = 0;
  uint64_t expired = 0;  // Since the server's start: entries whose time had come,
  uint64_t evicted = 0;  // and those that were removed so that others had room.
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t splits = 0;
  uint64_t bytes_total = 0;
  uint64_t bytes_free = 0;
  uint64_t bytes_live = 0;
  uint64_t bytes_retired = 0;
  uint64_t buffers_live = 0;
  uint64_t writes = 0;                                  // Since the server's start, as versions given.
  std::vector<std::pair<std::string, uint64_t>> calls;  // Served since its start, by name.
};

struct Pong {
  uint64_t round_trip_ns = 0;
  uint64_t node_wall_ns = 0;
};

// Of all threads together, those that have ended included.
struct ClientCounters {
  uint64_t direct_reads = 0;   // Reads by plain loads, each key of a multi_get counted.
  uint64_t messages_sent = 0;  // Requests to the server.
  uint64_t rereads = 0;        // Direct reads that had to ask the server, or wait for memory to be mapped.
  uint64_t server_losses = 0;  // Servers that ended under this client.
  uint64_t connections = 0;    // Nodes connected to, the first included.
};

}  // namespace refract
