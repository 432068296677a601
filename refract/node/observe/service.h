// SPDX-License-Identifier: Apache-2.0
// A shard's answers about itself (wire.h), and the door through which a service's calls come in, where a
// sample of them is timed.
//
//   observe::Service observe({...});
//   observe::FrontDoor store_door(table_service, observe);
//   observe::FrontDoor observe_door(observe, observe);
//   rpc::ServiceTable services({{0, &store_door}, {observe::wire::kMethodsBegin, &observe_door}});
//   rpc::Server server(services, shard);
//   observe.answer_through(server);
//
// Nothing here works unless it is asked, but two looks at the clock for every 32nd batch, or every
// millisecond where calls are rare. What a telling costs the shard is bounded: a few tens of microseconds for
// its state, a page of connections, or a recording of 2 MiB.
//
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/table/table_types.h"
#include "refract/memory/heap.h"
#include "refract/node/observe/call_trace.h"
#include "refract/node/observe/state.h"
#include "refract/node/observe/wire.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"

namespace refract::observe {

// Who is at the other end of a channel, for people.
struct Peer {
  std::string transport;
  std::string name;
  std::string reason;
};

// What a service has done, as a sample tells.
struct ServiceTimes {
  uint64_t batches = 0;
  Histogram batch_ns;
  Histogram batch_calls;
  std::vector<Histogram> method_ns = std::vector<Histogram>(kv::wire::kMethods);  // By number; 0: others.
  uint64_t sampled_ns = 0;  // When a batch was timed last.
};

class Service final : public rpc::Service {
 public:
  // All that are referred to outlive the service.
  struct Parts {
    std::function<void(ShardState&)> tell_stores;  // What they have; their counters apart.
    const Heap& heap;
    PinSource& pins;
    runtime::Shard& shard;
    std::array<uint64_t, 2> identity{};
    uint64_t incarnation = 0;
    uint32_t shard_index = 0;
    uint32_t shard_count = 1;
    std::function<Peer(const fabric::Channel&)> peer_of;  // Empty: nothing is known of peers.
    std::function<void(const AddCounter&)> add_counters;  // Of providers and all else that counts.
    std::function<DataState()> data = {};                 // Empty: not said.
    // Begins a snapshot, and says which attempt that is. Empty: there are none.
    std::function<uint64_t()> want_snapshot = {};
  };
  explicit Service(Parts parts);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() override;

  // Before the first session opens. Takes the server's tap.
  void answer_through(rpc::Server& server) noexcept;

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;

  [[nodiscard]] ServiceTimes& times() noexcept { return times_; }
  [[nodiscard]] CallTrace& trace() noexcept { return trace_; }
  [[nodiscard]] runtime::Shard& shard() noexcept { return parts_.shard; }

  [[nodiscard]] ShardState state() const;
  [[nodiscard]] ConnectionPage connections(uint64_t from) const;

 private:
  struct Telling {
    uint64_t id = 0;
    rpc::SessionId session;
    std::string bytes;
  };

  void begin(const rpc::Responder& from, std::span<const std::byte> body);
  void more(const rpc::Responder& from, std::span<const std::byte> body);
  void start_trace(const rpc::Responder& from, std::span<const std::byte> body);
  void begin_snapshot(const rpc::Responder& from, std::span<const std::byte> body);
  [[nodiscard]] Result<std::string> tell(const wire::BeginRequest& request, rpc::SessionId session);
  void forget(rpc::SessionId session) noexcept;

  Parts parts_;
  uint64_t started_ns_;
  rpc::Server* server_ = nullptr;
  ServiceTimes times_;
  CallTrace trace_;
  std::deque<Telling> tellings_;  // Oldest first.
  uint64_t next_id_ = 1;
};

// What a table has, in the state of its shard.
void tell_table(const kv::TableStats& table, ShardState& state);
// What a table's service has done; the table apart.
void tell_service(const kv::wire::StatReply& stat, ShardState& state);

// All doors of a shard count and time their batches together.
class FrontDoor final : public rpc::Service {
 public:
  // Both outlive the door.
  FrontDoor(rpc::Service& behind, observe::Service& observe) noexcept : behind_(behind), observe_(observe) {}

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override { behind_.session_opened(session); }
  void session_closed(rpc::SessionId session) noexcept override { behind_.session_closed(session); }

 private:
  [[nodiscard]] bool is_sampled() noexcept;
  void handle_and_measure(std::span<const rpc::IncomingCall> calls) noexcept;

  rpc::Service& behind_;
  observe::Service& observe_;
};

}  // namespace refract::observe
