// SPDX-License-Identifier: Apache-2.0
// A published protocol of transactions, behind the least that benchmarks and a suite of tests need.
//
// A design is a folder and a row (designs.h): a Server, which lays its share of the keys out in memory given
// to it, and a Client, which reaches all servers, one session each. A transaction reads keys, keeps its
// writes, and commits. What all of them promise: a transaction that conflicts has changed nothing; one that
// committed has changed all its keys; what is read of one key was written whole. What differs is in the row:
// how transactions are isolated, what they cost, and what a client leaves that dies within one.
//
// The keys are made before the first client comes, and stay: the papers' protocols are for entries that are
// there. A written key has been read by the same transaction. There are no plain operations beside
// transactions, no times to live and no restarts. Keys are 1 to key_bytes_max bytes, values 0 to
// value_bytes_max.
//
// Threads: a server and a client are each used only by their shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/hash.h"
#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/memory/writer.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::txn::designs {

using Bytes = std::span<const std::byte>;

inline constexpr size_t kKeysMax = 32;  // Of one transaction.

// Which of `servers` has the key.
[[nodiscard]] inline size_t server_of(Bytes key, size_t servers) noexcept {
  constexpr uint64_t kSeed = 0x7e'a7;  // Another than those by which servers find keys.
  return hash_key(key, kSeed) % servers;
}

// Of one server, fixed when it is made.
struct Capacity {
  uint64_t keys_max = 0;
  uint32_t key_bytes_max = 64;
  uint32_t value_bytes_max = 1024;
  // Values beyond keys_max that there is room for: of writes under way.
  uint32_t spare_values = 64;
};

struct ServerParts {
  runtime::Shard& shard;
  fabric::Domain& domain;  // Serves the memory to one-sided requests, where the design reads by them.
  // Zeroes, at least Design::memory_bytes, aligned to 64 bytes. It outlives server and domain.
  std::span<std::byte> memory;
  Capacity capacity;
  uint64_t hash_seed = 0;
  uint16_t region = 1;      // The region's id in the domain.
  StoreLog* log = nullptr;  // Told of every store, for tests.
  // For how long a client may keep others from a key; then it is taken for dead, and ended.
  uint64_t patience_ns = 100 * kMillisecond_ns;
};

class Server {
 public:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  virtual ~Server() = default;

  // What an rpc::Server is made with; then it is told that server, before the first call comes.
  [[nodiscard]] virtual rpc::Service& service() noexcept = 0;
  virtual void answer_through(rpc::Server* server) noexcept = 0;

  // Makes a key that server_of() gives to this server. REQUIRES: no client has come yet. kExists, kTooLarge,
  // kInvalidArgument (an empty key), kNoSpace.
  [[nodiscard]] virtual Result<> load(Bytes key, Bytes value) = 0;

  // Frees what dead clients left. The loop that runs the server calls it every few milliseconds.
  virtual void keep_house() noexcept = 0;

  struct Facts {
    uint64_t keys = 0;
    uint64_t held_keys = 0;   // That others cannot commit on, because of a transaction that has not ended.
    uint64_t freed_keys = 0;  // So often a key was freed of a client that had died.
    uint64_t ended_clients = 0;
    uint64_t buffers = 0;  // Where the design has such.
    uint64_t free_buffers = 0;
  };
  [[nodiscard]] virtual Facts facts() const = 0;
  // Walks through everything; a sentence on the first thing that contradicts another. For tests and checks.
  [[nodiscard]] virtual std::optional<std::string> contradiction() const = 0;
};

struct ClientParts {
  std::span<rpc::Session* const> sessions;  // One for each server, in the servers' order; copied.
  runtime::Shard& shard;
  // By which transactions are ordered, where the design orders them by clocks. It may differ from those of
  // other clients.
  const Clock& clock;
  uint16_t number = 1;  // From 1; no two clients of a store ever have the same.
  uint64_t timeout_ns = 5 * kSecond_ns;
};

// What a transaction knows of one key.
struct Access {
  std::vector<std::byte> key;
  size_t server = 0;
  std::vector<std::byte> found;
  uint64_t version = 0;  // Of what was found: which of the key's writes, in a number that grows with each.
  uint64_t place = 0;    // The design's own: where the entry lies,
  uint64_t mark = 0;     // and what must be there unchanged at the commit.
  bool is_read = false;
  bool is_written = false;
  std::vector<std::byte> value;  // That is written.
  uint64_t written_version = 0;  // Known when it has committed.
};

// One attempt. Keys and values given are copied. Codes of tasks: kConflict: other transactions were in the
// way, and nothing was changed; kIndeterminate, of commit() alone: all, some or none of the written keys may
// change, now or later; anything else: nothing was changed.
class Transaction {
 public:
  Transaction() = default;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  virtual ~Transaction() = default;

  // All that it has not read yet, side by side. kNotFound: there is no such key. kTooLarge: more than
  // kKeysMax. A transaction that could not read is over. `deadline_ns` is a moment of the shard's clock; 0:
  // the client's timeout from now.
  [[nodiscard]] runtime::Task<Result<>> read(std::span<const Bytes> keys, uint64_t deadline_ns);
  // Keeps the value until the commit. kInvalidArgument: the key was not read. kTooLarge.
  [[nodiscard]] Result<> write(Bytes key, Bytes value);
  // Once, and nothing after it.
  [[nodiscard]] virtual runtime::Task<Result<>> commit(uint64_t deadline_ns) = 0;

  // Null: it was not read.
  [[nodiscard]] const Access* find(Bytes key) const noexcept;

 protected:
  // Fills what was found into those that are not read.
  [[nodiscard]] virtual runtime::Task<Result<>> fetch(uint64_t deadline_ns) = 0;
  [[nodiscard]] virtual uint64_t value_bytes_max() const noexcept = 0;
  [[nodiscard]] virtual size_t servers() const noexcept = 0;

  std::vector<std::unique_ptr<Access>> accesses_;  // In the order in which they were asked for.
};

// A client outlives its transactions, its sessions and their channels, which may still write into the
// client's buffers. When one of its sessions ends it is of no use any more: another client, of another
// number, takes its place.
class Client {
 public:
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual ~Client() = default;

  // Learns where everything lies. Once, with success, before anything else.
  [[nodiscard]] virtual runtime::Task<Result<>> attach(uint64_t deadline_ns) = 0;
  [[nodiscard]] virtual std::unique_ptr<Transaction> begin() = 0;
};

enum class Isolation : uint8_t {
  kSerialisable,  // In some order, which may be another than that of time.
  kStrict,        // In an order in which what ended before another began comes first.
};

// What is left of a transaction whose client dies within commit().
enum class AfterDeath : uint8_t {
  kAllOrNothing,
  kHalf,  // Of each written key by itself: the new value or the old one.
};

struct Design {
  std::string_view name;   // "prism-tx": as options and pages have it.
  std::string_view paper;  // For people.
  Isolation isolation;     // Where clients' clocks agree better than a message is quick,
  Isolation isolation_by_any_clocks;
  AfterDeath after_death;
  // Where no two keys collide in an index, and nothing conflicts. Of all keys, on all servers, together.
  struct RoundTrips {
    uint32_t read = 0;
    uint32_t commit_of_writes = 0;
    uint32_t commit_of_reads = 0;  // Of several keys, none written.
  } round_trips;
  uint64_t (*memory_bytes)(const Capacity& capacity);
  Reported<std::unique_ptr<Server>> (*make_server)(const ServerParts& parts);
  std::unique_ptr<Client> (*make_client)(const ClientParts& parts);
};

}  // namespace refract::txn::designs
