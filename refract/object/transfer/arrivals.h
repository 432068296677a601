// SPDX-License-Identifier: Apache-2.0
// Objects on their way here: what has come of them is given to other members already, which pull them at the
// same time (docs/design/061-broadcast.md).
//
// Threads: only the shard that owns the objects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "refract/memory/space.h"
#include "refract/object/layout/object_layout.h"

namespace refract::object {

class Arrivals {
 public:
  struct Arrival {
    std::string id;
    uint64_t birth = 0;
    ObjectParts parts;
    // The plan that it follows: it is given to members that follow the same one. 0: it comes from whole
    // copies alone, and is given to all.
    uint64_t plan = 0;
    Offset object;
    std::span<std::byte> room;  // All of its bytes, those that have not come yet, too.
    // So many from the first on are as they will stay. This thread has stored them, and no fence stands
    // behind that yet.
    uint64_t ready = 0;
  };
  // What gives them.
  class Giver {
   public:
    // It has begun, or more of it has come. Called in the middle of a transfer: answers later.
    virtual void arrival_grew(const Arrival& arrival) noexcept = 0;
    // It is an object now, in the same place.
    virtual void arrival_sealed(const Arrival& arrival) noexcept = 0;
    // Its room is given back when this returns.
    virtual void arrival_failed(const Arrival& arrival) noexcept = 0;

   protected:
    ~Giver() = default;
  };

  // One arrival; it has failed unless it was sealed. The arrivals outlive it.
  class Entry {
   public:
    Entry(Arrivals& arrivals, Arrival arrival) : arrivals_(arrivals) {
      const Named name(arrival.id, arrival.birth);
      arrival_ = &arrivals_.all_.insert_or_assign(name, std::move(arrival)).first->second;
      grew(0);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { end(); }
    void grew(uint64_t ready) noexcept {
      if (arrival_ == nullptr) return;
      arrival_->ready = ready;
      if (arrivals_.giver_ != nullptr) arrivals_.giver_->arrival_grew(*arrival_);
    }
    // REQUIRES: it was sealed in this turn.
    void sealed() noexcept {
      if (arrival_ == nullptr) return;
      is_sealed_ = true;
      arrival_->ready = arrival_->room.size();
      if (arrivals_.giver_ != nullptr) arrivals_.giver_->arrival_sealed(*arrival_);
    }
    // From now on nothing of it is given; likewise where its room goes, or it was deleted.
    void end() noexcept {
      if (arrival_ == nullptr) return;
      const Named name(arrival_->id, arrival_->birth);
      if (arrivals_.giver_ != nullptr && !is_sealed_) arrivals_.giver_->arrival_failed(*arrival_);
      arrival_ = nullptr;
      arrivals_.all_.erase(name);
    }

   private:
    Arrivals& arrivals_;
    Arrival* arrival_ = nullptr;  // Null: it is over.
    bool is_sealed_ = false;
  };

  // Null: none is given any more.
  void tell(Giver* giver) noexcept { giver_ = giver; }
  // Null: that birth is not on its way.
  [[nodiscard]] const Arrival* find(std::string_view id, uint64_t birth) const {
    const auto at = all_.find(Named(id, birth));
    return at == all_.end() ? nullptr : &at->second;
  }
  template <typename Matches>
  [[nodiscard]] const Arrival* find_if(Matches&& matches) const {
    const auto at = std::ranges::find_if(all_, [&](const auto& one) { return matches(one.second); });
    return at == all_.end() ? nullptr : &at->second;
  }

 private:
  using Named = std::pair<std::string, uint64_t>;
  std::map<Named, Arrival> all_;
  Giver* giver_ = nullptr;
};

}  // namespace refract::object
