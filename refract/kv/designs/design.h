// SPDX-License-Identifier: Apache-2.0
// A published design of a key-value store, behind the least that benchmarks and conformance tests need.
//
// A design is a folder and a row (designs.h): a Server, which lays the store out in memory given to it and
// answers calls, and a Client, which reaches it over one session. What all of them promise: a get returns
// bytes that some put wrote; each operation takes effect at one moment between its call and its return; a
// full store says kNoSpace and loses nothing. What they do not: versions, conditions, times to live, scans,
// restarts; the papers have none. Keys are 1 to key_bytes_max bytes, values 0 to value_bytes_max.
//
// Threads: a server and a client are each used only by their shard. See docs/design/018-published-designs.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/memory/writer.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv::designs {

// Fixed when the store is made.
struct Capacity {
  uint64_t keys_max = 0;       // How many different keys the memory is made for.
  uint64_t keys_at_start = 0;  // What the index begins with where it can grow; 0: keys_max.
  uint32_t key_bytes_max = 64;
  uint32_t value_bytes_min = 0;  // Shorter ones may take as much memory as these.
  uint32_t value_bytes_max = 1024;
  // Values beyond keys_max that there is room for: of writes under way, and of what clients have not told
  // yet.
  uint32_t spare_values = 256;
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

  // What is due besides answering calls: an epoch has passed. The loop that runs the server calls it every
  // few milliseconds while there is traffic.
  virtual void keep_house() noexcept {}

  struct Facts {
    uint64_t keys = 0;
    uint64_t buffers = 0;       // Where the design has such.
    uint64_t free_buffers = 0;  // Of them, those that the next put may take.
    uint64_t used_buffers = 0;  // Those that the index leads to. The others are free, for now.
  };
  [[nodiscard]] virtual Facts facts() const = 0;
  // Walks through everything; a sentence on the first thing that contradicts another. For tests and checks.
  [[nodiscard]] virtual std::optional<std::string> contradiction() const = 0;
};

struct ClientParts {
  rpc::Session& session;
  runtime::Shard& shard;
  uint64_t timeout_ns = 5 * kSecond_ns;
};

// Keys, values and sinks given must live until the task has ended. Codes: those of the contract;
// kIndeterminate where a write was sent and no answer came. `deadline_ns` is a moment of the shard's clock; 0
// stands for timeout_ns from now. A client outlives its tasks, its session and the session's channel, which
// may still write into the client's buffers.
class Client {
 public:
  using Bytes = std::span<const std::byte>;

  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual ~Client() = default;

  // Learns where the store lies. Once, with success, before anything else.
  [[nodiscard]] virtual runtime::Task<Result<>> attach(uint64_t deadline_ns) = 0;
  // How long the value is.
  [[nodiscard]] virtual runtime::Task<Result<uint64_t>> get(Bytes key, ValueSink& sink,
                                                            uint64_t deadline_ns) = 0;
  [[nodiscard]] virtual runtime::Task<Result<>> put(Bytes key, Bytes value, uint64_t deadline_ns) = 0;
  // kNotFound where there was nothing to erase.
  [[nodiscard]] virtual runtime::Task<Result<>> erase(Bytes key, uint64_t deadline_ns) = 0;
  // Tells the server what this client owes it and has put off.
  [[nodiscard]] virtual runtime::Task<Result<>> settle(uint64_t deadline_ns) = 0;
};

struct Design {
  std::string_view name;   // "pilaf": as options and pages have it.
  std::string_view paper;  // For people.
  uint64_t (*memory_bytes)(const Capacity& capacity);
  Reported<std::unique_ptr<Server>> (*make_server)(const ServerParts& parts);
  std::unique_ptr<Client> (*make_client)(const ClientParts& parts);
};

}  // namespace refract::kv::designs
