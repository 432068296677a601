// SPDX-License-Identifier: Apache-2.0
// refract::Client: a node's key-value store for ordinary programs.
//
//   refract::Reported<refract::Client> client = refract::Client::connect();
//   if (!client) return complain(client.error().to_string());
//   client->put("greeting", "hello, memory");
//   refract::Result<std::string> value = client->get("greeting");
//
// Keys are 1 to 65,535 bytes, values 0 bytes to 512 MiB, any bytes. Reads go straight to the node's memory:
// no message, no system call, also while the node's server is stopped or being restarted. Writes are one
// message each way. Every call blocks until it is done or its deadline has passed, and takes effect at one
// moment in between.
//
// The server may crash and come back under a client: reads go on, writes wait for the next server within
// their deadline, and only a write that had been sent before the crash ends with kIndeterminate. If the whole
// node is gone, calls say kUnavailable, and each next call looks for a new node at the same address.
//
// Codes: kNotFound, kExists, kVersionMismatch, kInvalidArgument, kTooLarge, kNoSpace as the contract has
// them; kUnavailable, kDeadlineExceeded: nothing was changed; kIndeterminate: a write may have happened;
// kOverloaded: too many views are held; kForked: the handle was made by the parent process. base/codes.def
// explains each.
//
// Threads: one at a time. Make one Client for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/result.h"

namespace refract {

enum class Path : uint8_t {
  kAuto,    // Direct where the memory is mapped, else rpc.
  kDirect,  // Direct or kUnsupported.
  kRpc,     // Always ask the server: for tests and comparisons.
};

struct ClientOptions {
  uint64_t timeout_ns = 5'000'000'000;  // Of each call.
  Path path = Path::kAuto;              // Of reads.
  bool populate =
      false;  // Fill all page tables when memory is mapped: slower to connect, no page faults later.
};

struct WriteOptions {
  // At most one of the two conditions.
  bool if_absent = false;   // Else kExists.
  uint64_t if_version = 0;  // The present version must be this one, else kVersionMismatch, or kNotFound.
  uint64_t ttl_ns = 0;      // The entry is gone after so long; 0: never.
};

struct Entry {
  std::string value;
  uint64_t version = 0;          // Greater with every write to the node; never used twice.
  uint64_t expires_wall_ns = 0;  // Nanoseconds since 1970; 0: never.
};

struct Metadata {
  uint64_t version = 0;
  uint64_t value_bytes = 0;
  uint64_t expires_wall_ns = 0;
};

struct ScannedEntry {
  std::string key;
  uint64_t version = 0;
  uint64_t value_bytes = 0;
};

struct ScanPage {
  std::vector<ScannedEntry> entries;  // May be empty although more follow.
  uint64_t next = 0;                  // The next page's cursor; 0: this was the last page.
};

struct NodeStat {
  uint64_t entries = 0;
  uint64_t expiring_entries = 0;
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t memory_total_bytes = 0;
  uint64_t memory_free_bytes = 0;
  uint64_t memory_live_bytes = 0;
  uint64_t memory_retired_bytes = 0;
  uint64_t memory_limit_bytes = 0;
  uint64_t uptime_ns = 0;
  uint64_t connections = 0;
  uint64_t incarnation = 0;  // How many servers the node has had.
  uint64_t server_pid = 0;
};

// A value where it lies in the node's memory. The bytes stay as they are until the view is destroyed,
// whatever is written meanwhile; a client holds 255 of them at most. Must not outlive its Client.
class View {
 public:
  View() = default;
  View(View&& other) noexcept;
  View& operator=(View&& other) noexcept;
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] uint64_t version() const noexcept { return version_; }

 private:
  friend class Client;
  std::span<const std::byte> bytes_;
  uint64_t version_ = 0;
  std::weak_ptr<void> holder_;  // The connection whose page has the pin.
  int pin_ = -1;
};

class Client {
 public:
  // `address`: the node's socket path, with or without "refract://"; empty: this user's default.
  [[nodiscard]] static Reported<Client> connect(std::string_view address = {},
                                                const ClientOptions& options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  [[nodiscard]] Result<std::string> get(std::string_view key);
  [[nodiscard]] Result<Entry> get_entry(std::string_view key);
  // Into the caller's memory: no allocation. kTooLarge, with nothing written, if `target` is too short.
  [[nodiscard]] Result<Metadata> get_into(std::string_view key, std::span<std::byte> target);
  // kNotFound, or what there is to know without the value.
  [[nodiscard]] Result<Metadata> exists(std::string_view key);
  // Without a copy; kUnsupported where the memory is not mapped.
  [[nodiscard]] Result<View> view(std::string_view key);

  // Return the version written, or erased.
  Result<uint64_t> put(std::string_view key, std::string_view value, const WriteOptions& options = {});
  Result<uint64_t> erase(std::string_view key, uint64_t if_version = 0);

  // Many at once, in no particular order; each has its own outcome.
  [[nodiscard]] std::vector<Result<std::string>> multi_get(std::span<const std::string_view> keys);
  struct Write {
    std::string_view key;
    std::string_view value;
    WriteOptions options = {};
  };
  [[nodiscard]] std::vector<Result<uint64_t>> multi_put(std::span<const Write> writes);

  // Whole buckets from the cursor on, `entries_min` or more if there are. Begin with 0. Entries present
  // throughout a scan come at least once, however the table grows meanwhile.
  [[nodiscard]] Result<ScanPage> scan(uint64_t cursor, size_t entries_min = 256);

  [[nodiscard]] Result<NodeStat> stat();
  // The time of a message to the server and back, in nanoseconds.
  [[nodiscard]] Result<uint64_t> ping();

  // How this client reaches the node, and why so: "shm: node's memory mapped read-only (64 MiB at ...)".
  [[nodiscard]] std::string why() const;

  // What this client did, for those who count: messages each way, reads by path, retries.
  struct Counters {
    uint64_t direct_reads = 0;
    uint64_t rpc_calls = 0;
    uint64_t reconnects = 0;
  };
  [[nodiscard]] const Counters& counters() const noexcept;

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace refract
