// SPDX-License-Identifier: Apache-2.0
// Writes down what a server evicts: each eviction is an erasure in the history, by a client of its own, of
// the version that went. It takes effect between the moment when the owner decides it and the one when
// all readers can see its store; what a crash takes back in between may have happened or not.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "refract/fabric/sim/visible_memory.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/writer.h"

namespace refract::campaign {

// What the campaign is told of.
struct EvictionNotes {
  std::function<size_t(const std::string& key, uint64_t version)> begin;
  std::function<void(size_t record)> end;
};

class EvictionWitness final : public kv::Departures {
 public:
  // All outlive the witness. It attaches itself to the table.
  EvictionWitness(kv::Table& table, const Writer& writer, const sim::VisibleMemory& memory,
                  const EvictionNotes& notes)
      : table_(table), writer_(writer), memory_(memory), notes_(notes), seen_(table.stats().evicted) {
    table_.tell(this);
  }
  EvictionWitness(const EvictionWitness&) = delete;
  EvictionWitness& operator=(const EvictionWitness&) = delete;
  ~EvictionWitness() override { table_.tell(nullptr); }

  // The table counts an eviction before the entry departs, and nothing else like that.
  void departing(kv::Slot slot) noexcept override {
    if (std::exchange(seen_, table_.stats().evicted) == table_.stats().evicted) return;
    const auto key = table_.key_in(slot.buffer());
    if (!key) return;
    const std::string text(reinterpret_cast<const char*>(key->bytes.data()), key->bytes.size());
    open_.push_back(
        {.record = notes_.begin(text, writer_.load(slot.buffer())), .store = memory_.position() + 1});
  }
  [[nodiscard]] bool keeps(Offset /*buffer*/) noexcept override { return false; }
  [[nodiscard]] bool gives_way() noexcept override { return false; }

  void poll() {
    for (; !open_.empty() && memory_.visible() >= open_.front().store; open_.pop_front()) {
      notes_.end(open_.front().record);
    }
  }

 private:
  struct Open {
    size_t record;
    uint64_t store;  // The number of the store that clears the slot.
  };

  kv::Table& table_;
  const Writer& writer_;
  const sim::VisibleMemory& memory_;
  const EvictionNotes& notes_;
  uint64_t seen_;
  std::deque<Open> open_;
};

}  // namespace refract::campaign
