// SPDX-License-Identifier: Apache-2.0
// What a connection asks of a provider beside fabric's contract: who the node is, whether its memory can be
// read here, and what tells of its server without a message. A provider is one row.
//
// Threads: used only by the connection's shard. It outlives the shard's interest in it: destroying it touches
// no shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/report.h"
#include "refract/client/types.h"
#include "refract/fabric/channel.h"

namespace refract {
class CopyTeam;
class PinWriter;
class UseWriter;
class WidePins;
}  // namespace refract
namespace refract::fabric::tcp {
class Secret;
}

namespace refract::client {

// What a node says of itself when it lets a client in.
struct NodeFacts {
  std::array<uint64_t, 2> identity{};  // Another identity is another node.
  uint64_t hash_seed = 0;
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
  uint32_t copies = 0;                  // With which the store was made: kv/layout/routing.h.
  bool is_spread = false;               // Other nodes have some of the slots.
  uint64_t placement = 0;               // cluster::placement_of() then; 0: the transport does not say it.
  uint16_t tcp_port = 0;                // shm: where the node listens; 0: nowhere.
  std::array<std::byte, 16> boot_id{};  // tcp: of its host.
  std::string socket_path;              // tcp: where clients of that host meet this shard; may be empty.
};

// How a node's server is. A provider whose nodes publish a word of it publishes these numbers.
enum class ServerState : uint64_t {
  kStarting = 1,
  kServing = 2,
  kRestarting = 3,  // It died, and the next one is not there yet.
  kGivenUp = 4,     // It died too often: there will be no other.
  kStopping = 5,
};

// Words that say how the server is, at the cost of a load. They stay where they are as long as the transport.
struct Signs {
  const uint64_t* server_state = nullptr;  // A ServerState.
  const uint64_t* incarnation = nullptr;
  bool are_live = false;  // The node itself changes them. Else only polling does.
};

struct TransportRequest {
  std::string address;  // In the provider's own form, the shard included.
  bool populate = true;
  uint64_t timeout_ns = 0;
  const fabric::tcp::Secret* secret = nullptr;  // Null: none. Outlives the transport.
  std::string rdma_device;                      // Empty: one that works.
  CopyTeam* copies = nullptr;  // Of long values that are read directly. Null: none. Outlives the reads.
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual fabric::Domain& domain() noexcept = 0;
  // Dead once it has closed for good.
  [[nodiscard]] virtual fabric::Channel& channel() noexcept = 0;

  // These four are for a channel that has opened once.
  virtual void opened() {}
  [[nodiscard]] virtual NodeFacts facts() const = 0;
  [[nodiscard]] virtual Signs signs() const noexcept = 0;
  // Where values that are read directly are held. Null: there is no direct reading.
  [[nodiscard]] virtual PinWriter* pins() noexcept { return nullptr; }
  // The same, and all that the node gives this connection beside it: of its objects 65,536 can be held.
  [[nodiscard]] virtual WidePins* wide_pins() noexcept { return nullptr; }
  // Where direct reads are written down, and of how many one is; 0: of none.
  [[nodiscard]] virtual UseWriter* uses() noexcept { return nullptr; }
  [[nodiscard]] virtual uint64_t reads_per_use() const noexcept { return 0; }
  // Whether what direct reads do not find may be on another node, where the shard has objects.
  [[nodiscard]] virtual bool shares_objects() const noexcept { return false; }

  // Has the domain look at what tells that the node has gone, whenever it would have done so by itself.
  virtual void look_around() noexcept {}
  // Why the connection failed or broke. Empty: unknown.
  [[nodiscard]] virtual const Report& last_refusal() const noexcept = 0;
  // What a person may look at when the node does not answer.
  [[nodiscard]] virtual std::string_view advice() const noexcept = 0;
  // Server, incarnation, process, device and mapped memory, added to what other shards of the node have.
  // REQUIRES: not closed for good.
  virtual void fill(Route& route) const = 0;
};

struct TransportRow {
  std::string_view name;  // As in Route and in addresses.
  Reported<std::unique_ptr<Transport>> (*begin)(const TransportRequest& request);
  // The address of a shard, from that of shard 0.
  std::string (*shard_address)(const std::string& address, uint32_t shard);
};

[[nodiscard]] const TransportRow& shm_row() noexcept;
[[nodiscard]] const TransportRow& tcp_row() noexcept;
[[nodiscard]] const TransportRow& verbs_row() noexcept;  // Introduced by TCP, at the same addresses.

}  // namespace refract::client
