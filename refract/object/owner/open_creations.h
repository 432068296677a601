// SPDX-License-Identifier: Apache-2.0
// Creations as their owner's service has them: whose they are, and how their bytes come.
//
// (F1) Their memory is given back, or published, only while no READ of the owner's is under way into it, and
// no window of a client's is open on it.
// (F2) The first read_bytes bytes have come and are final.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refract/base/units.h"
#include "refract/fabric/channel.h"
#include "refract/kv/owner/ports.h"
#include "refract/object/owner/object_store.h"
#include "refract/rpc/server.h"

namespace refract::object {

struct OpenCreation {
  uint64_t number = 0;  // Names it; never used twice.
  std::string id;
  Creation made;
  rpc::SessionId session{};  // Whose it is. None: it waits for its creator until claim_until_ns.
  uint64_t claim_until_ns = kForever_ns;
  std::optional<kv::Window> window = {};  // Through which its creator WRITEs.

  fabric::RemoteSpan source{};  // Where its creator has the bytes.
  uint64_t final_bytes = 0;     // So many of them may be READ.
  uint64_t read_bytes = 0;
  uint64_t read_until_ns = kForever_ns;  // No READ is begun from then on.
  uint64_t reading_at = 0;
  uint64_t bytes_under_way = 0;  // Behind reading_at; 0: nothing is READ.
  rpc::SessionId reader{};       // By whose channel,
  fabric::RemoteSpan reading{};  // and where they are READ.

  struct Seal {
    rpc::Responder from;
    uint64_t until_ns = kForever_ns;
  };
  std::vector<Seal> seals;           // To be answered when it is published.
  std::vector<rpc::Responder> ends;  // To be answered when it is given up.
  bool is_ending = false;            // It is given up as soon as (F1) allows it.

  [[nodiscard]] uint64_t birth() const noexcept { return made.birth; }
  [[nodiscard]] uint64_t bytes() const noexcept { return made.parts.filled_bytes(); }
};

class OpenCreations {
 public:
  // Null: there is none.
  [[nodiscard]] OpenCreation* find(std::string_view id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  [[nodiscard]] OpenCreation* find(uint64_t number) const {
    const auto found = by_number_.find(number);
    return found == by_number_.end() ? nullptr : found->second.get();
  }
  // REQUIRES: there is none with this id.
  OpenCreation& add(std::string_view id, const Creation& made) {
    auto open = std::make_unique<OpenCreation>();
    open->number = ++last_number_;
    open->id = id;
    open->made = made;
    OpenCreation& added = *open;
    by_id_.emplace(added.id, &added);
    by_number_.emplace(added.number, std::move(open));
    return added;
  }
  void remove(OpenCreation& open) {
    by_id_.erase(open.id);
    by_number_.erase(open.number);
  }
  [[nodiscard]] size_t count() const noexcept { return by_number_.size(); }
  void for_each(const std::function<void(OpenCreation&)>& visit) const {
    for (const auto& [number, open] : by_number_) visit(*open);
  }

 private:
  std::unordered_map<uint64_t, std::unique_ptr<OpenCreation>> by_number_;
  std::unordered_map<std::string_view, OpenCreation*> by_id_;  // The keys lie in the creations.
  uint64_t last_number_ = 0;
};

}  // namespace refract::object
