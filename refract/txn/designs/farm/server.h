// SPDX-License-Identifier: Apache-2.0
// FaRM's server: the primary of its objects. It locks, updates and unlocks by message, one message behind the
// other; reads and validation it never notices.
//
// A session that ends, or has held an object for too long and is ended for it, holds nothing any more: what
// it had locked is unlocked as it was.
//
// Threads: used only by the shard that owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/memory/writer.h"
#include "refract/txn/designs/design.h"
#include "refract/txn/designs/farm/layout.h"
#include "refract/txn/designs/farm/object.h"

namespace refract::txn::farm {

// What the protocol cannot do without. Tests break each, and find out.
struct ServerRules {
  bool locks = true;  // Else a lock is said to be held, and is not.
  StoreRules stores = {};
};

class FarmServer final : public designs::Server, private rpc::Service {
 public:
  FarmServer(const designs::ServerParts& parts, RemoteKey key, const ServerRules& rules = {});

  [[nodiscard]] rpc::Service& service() noexcept override { return *this; }
  void answer_through(rpc::Server* server) noexcept override { server_ = server; }
  [[nodiscard]] Result<> load(designs::Bytes key, designs::Bytes value) override;
  void keep_house() noexcept override;
  [[nodiscard]] Facts facts() const override;
  [[nodiscard]] std::optional<std::string> contradiction() const override;

 private:
  struct Hold {
    rpc::SessionId session;
    uint64_t since_ns = 0;
  };
  struct Update {
    uint64_t object = 0;
    designs::Bytes value;
  };

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;
  void attach(const rpc::Responder& to) noexcept;
  [[nodiscard]] Code execute(const rpc::IncomingCall& call);
  [[nodiscard]] Code lock(rpc::SessionId session, std::span<const LockItem> items);
  [[nodiscard]] Code unlock(rpc::SessionId session, std::span<const LockItem> items);
  [[nodiscard]] Code update(rpc::SessionId session, designs::Bytes body, bool stays_locked);
  [[nodiscard]] bool take_updates(designs::Bytes body, std::vector<Update>& updates) const;
  [[nodiscard]] bool is_object(uint64_t offset) const noexcept;
  [[nodiscard]] bool holds(rpc::SessionId session, uint64_t object) const noexcept;
  void release(uint64_t object) noexcept;
  [[nodiscard]] std::optional<uint64_t> object_of(designs::Bytes key) const;
  [[nodiscard]] Header header_of(uint64_t object) const noexcept { return {writer_.load({object})}; }
  [[nodiscard]] designs::Bytes lines_of(uint64_t object) const noexcept {
    return {writer_.at({object}), root_.object_bytes};
  }

  runtime::Shard& shard_;
  Writer writer_;
  Root root_;
  RemoteKey key_;
  uint16_t region_;
  uint64_t bytes_;
  uint64_t keys_max_;
  uint64_t patience_ns_;
  ServerRules rules_;
  rpc::Server* server_ = nullptr;
  std::map<uint64_t, Hold> holds_;  // By objects.
  std::vector<std::byte> body_;     // A call's, where its sender cannot change it any more.
  uint64_t keys_ = 0;
  uint64_t freed_keys_ = 0;
  uint64_t ended_clients_ = 0;
};

// The row's entries.
[[nodiscard]] uint64_t memory_bytes(const designs::Capacity& capacity);
[[nodiscard]] Reported<std::unique_ptr<designs::Server>> make_server(const designs::ServerParts& parts);
// Likewise, with rules broken.
[[nodiscard]] Reported<std::unique_ptr<designs::Server>> make_server_by(const designs::ServerParts& parts,
                                                                        const ServerRules& rules);

}  // namespace refract::txn::farm
