// SPDX-License-Identifier: Apache-2.0
// refract::Client: a program's handle on a Refract node of this host.
//
//   auto client = refract::Client::connect();
//   if (!client) return complain(client.error().to_string());
//   (void)client->put("greeting", "hello");
//   const auto value = client->get("greeting");  // Result<std::string>
//
// Gets, views, scans and exists read the node's memory directly, mapped here read-only: no message, and no
// help of the server, which may be stopped or dead. Puts and erases are one message each way. Every call
// blocks until it is done, at most for the timeout.
//
// What may come back, beside each call's own codes: kIndeterminate (the server ended while it had this write;
// look before repeating it), kUnavailable (no server, or no node, within the timeout; nothing was changed),
// kDeadlineExceeded (likewise, it did not answer), kInvalidArgument and kTooLarge (keys have 1 to 65,535
// bytes, values up to 512 MiB), kForked (this handle belongs to the parent process).
//
// When the server dies and is started again, the client goes on by itself; when the whole node has ended, the
// next call connects anew. A direct get notices that a node was killed after 256 further gets at the latest,
// until when it shows the state that the node died with.
//
// Threads: one at a time. Memory: get and put take none after their first calls but what the caller's string
// needs. Nothing throws; a process that runs out of memory ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/result.h"

namespace refract {

namespace client {
class ClientState;
}

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
  kAuto,  // What reads does so directly, what writes goes to the server.
  kRpc,   // Everything goes to the server: for comparisons and tests.
};

struct ClientOptions {
  uint64_t timeout_ns = 5'000'000'000;  // Of one call; of a long value or many keys, of each message.
  Paths paths = Paths::kAuto;
  bool populate = true;  // Fill the page tables when mapping: slower to connect, no page faults later.
};

struct PutOptions {
  // At most one of the two conditions, else kInvalidArgument.
  bool if_absent = false;   // Else kExists.
  uint64_t if_version = 0;  // The present version must be this one, else kVersionMismatch (kNotFound).
  uint64_t ttl_ns = 0;      // The entry is gone after this time, by the node's clock; 0: it stays.
};

// What is known of an entry beside its bytes.
struct Got {
  uint64_t version = 0;  // Never 0 for an entry; every write makes a greater one.
  uint64_t value_bytes = 0;
  uint64_t expires_wall_ns = 0;  // Nanoseconds since 1970; 0: never.
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
struct PutItem {
  Bytes key;
  Bytes value;
  PutOptions options = {};
  Result<uint64_t> result = fail(Code::kUnavailable);
};

// Where requests go, and why.
struct Route {
  std::string transport;  // "shm".
  std::string address;
  bool direct = false;  // Reads are plain loads.
  std::string reason;   // Why they are, or are not.
  std::string server;   // "serving", "restarting", ...
  uint64_t incarnation = 0;
  uint64_t server_pid = 0;  // As the node sees it.
  uint64_t mapped_bytes = 0;
  uint64_t regions = 0;
};

struct NodeStat {
  uint64_t uptime_ns = 0;  // Of the server.
  uint64_t connections = 0;
  uint64_t entries = 0;
  uint64_t expiring_entries = 0;
  uint64_t expired = 0;
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

struct ClientCounters {
  uint64_t direct_reads = 0;   // Reads by plain loads, each key of a multi_get counted.
  uint64_t messages_sent = 0;  // Requests to the server.
  uint64_t rereads = 0;        // Direct reads that had to ask the server, or wait for memory to be mapped.
  uint64_t server_losses = 0;  // Servers that ended under this client.
  uint64_t connections = 0;    // Nodes connected to, the first included.
};

// A value in the node's memory, held as it was when view() returned: later writes do not touch it. Held by
// one of 255 pins of the client, and in the node's memory as long as the view lives. May outlive the Client.
// Threads: the client's.
class View {
 public:
  View(View&& other) noexcept;
  View& operator=(View&& other) noexcept;
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string_view text() const noexcept { return Bytes(bytes_).text(); }
  [[nodiscard]] uint64_t version() const noexcept { return version_; }

 private:
  friend class client::ClientState;
  View() = default;

  client::ClientState* state_ = nullptr;
  void* held_by_ = nullptr;
  int pin_ = -1;
  std::span<const std::byte> bytes_;
  uint64_t version_ = 0;
};

class Client {
 public:
  // `address` is a socket's path, "shm:PATH" or "refract:///PATH"; empty: the default socket of this user.
  [[nodiscard]] static Reported<Client> connect(std::string_view address = {},
                                                const ClientOptions& options = {});
  Client(Client&& other) noexcept;
  Client& operator=(Client&& other) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  [[nodiscard]] Result<std::string> get(Bytes key);
  // Into a string whose memory is used again.
  [[nodiscard]] Result<Got> get(Bytes key, std::string& value);
  // kTooLarge: the value is longer than `value` (exists() says how long).
  [[nodiscard]] Result<Got> get_into(Bytes key, std::span<std::byte> value);
  // kOverloaded: all pins are in use. kUnsupported with Paths::kRpc.
  [[nodiscard]] Result<View> view(Bytes key);
  // kNotFound, or what is there.
  [[nodiscard]] Result<Got> exists(Bytes key);

  // The new version. kNoSpace: the node's memory limit is reached, nothing was changed.
  [[nodiscard]] Result<uint64_t> put(Bytes key, Bytes value, const PutOptions& options = {});
  // The version that was erased; `if_version` 0: any.
  [[nodiscard]] Result<uint64_t> erase(Bytes key, uint64_t if_version = 0);

  // The keys from `cursor` on, some `keys_min` of them or fewer. Begin with 0, go on with `next`. An entry
  // that is there throughout a scan comes at least once, also across growth and restarts; one may come twice.
  [[nodiscard]] Result<ScanPage> scan(uint64_t cursor, size_t keys_min = 128);

  // Many at once, each with its own outcome, in no particular order.
  void multi_get(std::span<GetItem> items);
  [[nodiscard]] std::vector<Result<std::string>> multi_get(std::span<const std::string_view> keys);
  void multi_put(std::span<PutItem> items);

  [[nodiscard]] Result<NodeStat> stat();
  [[nodiscard]] Result<Pong> ping();

  [[nodiscard]] Route route() const;
  // The route in a few lines for people.
  [[nodiscard]] std::string why() const;
  // Why the node could not be reached when a call last failed so.
  [[nodiscard]] Report trouble() const;
  [[nodiscard]] ClientCounters counters() const noexcept;

 private:
  friend class client::ClientState;
  explicit Client(client::ClientState* state) noexcept : state_(state) {}
  client::ClientState* state_;  // Null: moved from. Shared with the views.
};

}  // namespace refract
