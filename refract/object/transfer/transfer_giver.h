// SPDX-License-Identifier: Apache-2.0
// The holder's end of transfers: gives other members the bytes of the objects that are here, in messages or
// by windows for their READs (docs/design/055-object-transport.md).
//
// What is being given stays in its place: it is pinned until the puller says that it is done, its session
// ends, or nothing was asked of the transfer for kIdle_ns and kIdlePerMiB_ns for each MiB. A window is closed
// before its object is let go, so a late READ is refused. A holder that gives nothing needs no CPU.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/memory/writer.h"
#include "refract/object/owner/elsewhere.h"
#include "refract/object/owner/object_store.h"
#include "refract/object/transfer/transfer_wire.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object {

class TransferGiver final : public rpc::Service {
 public:
  static constexpr uint64_t kIdle_ns = 30 * kSecond_ns;
  static constexpr uint64_t kIdlePerMiB_ns = kSecond_ns;

  // All outlive the giver.
  struct Parts {
    ObjectStore& store;
    Writer& writer;
    kv::SessionPins& pins;  // Among the sources that the heap asks.
    runtime::Shard& shard;
    Elsewhere& elsewhere;              // Which sessions may ask; it is told what they get.
    kv::WindowSource* windows;         // Null: bytes go in messages alone.
    std::function<void()> has_let_go;  // An object is not held for a transfer any more: room may have come.
  };
  explicit TransferGiver(Parts parts) : parts_(std::move(parts)) {}
  TransferGiver(const TransferGiver&) = delete;
  TransferGiver& operator=(const TransferGiver&) = delete;
  ~TransferGiver() override;

  // What carries the answers. Before the first session; null: no call is answered any more, and all sessions
  // have ended.
  void answer_through(rpc::Server* server) noexcept { server_ = server; }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;

  struct Counts {
    uint64_t transfers = 0;      // That were begun,
    uint64_t windows = 0;        // among them by READs.
    uint64_t messages = 0;       // With bytes,
    uint64_t message_bytes = 0;  // and how many of them.
    uint64_t digests = 0;
    uint64_t idle = 0;  // Transfers that ended because nothing was asked of them.
    uint64_t open = 0;  // Now.
  };
  [[nodiscard]] Counts counts() const noexcept;

 private:
  struct Open {
    uint64_t number = 0;
    Offset object;
    std::span<const std::byte> bytes;
    std::optional<kv::Window> window;
    uint64_t due_ns = 0;  // Unless something is asked.
  };

  void answer(const rpc::Responder& to, Code code, std::span<const std::byte> head = {},
              std::span<const std::byte> tail = {}) noexcept;
  void transfer(const rpc::Responder& from, std::span<const std::byte> body);
  [[nodiscard]] Code begin(const rpc::Responder& from, const wire::TransferRequest& request,
                           const Object& object);
  void data(const rpc::Responder& from, std::span<const std::byte> body, bool is_digest);
  void done(const rpc::Responder& from, std::span<const std::byte> body);
  [[nodiscard]] Open* find(rpc::SessionId session, uint64_t number) noexcept;
  void touch(Open& open) noexcept;
  // It stands in no list any more.
  void end(const Open& open);
  void start_timer();
  [[nodiscard]] runtime::Task<> run_timer();
  // When the next one is due.
  [[nodiscard]] uint64_t end_idle(uint64_t now_ns);

  const Parts parts_;
  rpc::Server* server_ = nullptr;
  std::unordered_map<uint64_t, std::vector<Open>> open_;  // By session.
  uint64_t last_number_ = 0;
  bool is_timing_ = false;
  runtime::Task<> timer_;
  Counts counts_;
};

}  // namespace refract::object
