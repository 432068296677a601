// SPDX-License-Identifier: Apache-2.0
// The owner's process of a campaign, made again after each crash.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/campaign/mutated_pulls.h"
#include "tests/objects/early_aborts.h"
#include "tests/objects/object_memory.h"

#include "refract/base/prng.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/host.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/domain_windows.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/pins.h"
#include "refract/memory/uses.h"
#include "refract/object/owner/object_service.h"
#include "refract/object/owner/object_store.h"
#include "refract/rpc/server.h"

namespace refract::campaign {

// Lives in the owner's host (Host::emplace). Serves only if `damage()` is empty.
class ObjectOwner final {
 public:
  ObjectOwner(sim::Host& host, ObjectMemory& memory, ObjectOutcome& tally);
  ObjectOwner(const ObjectOwner&) = delete;
  ObjectOwner& operator=(const ObjectOwner&) = delete;
  ~ObjectOwner();

  [[nodiscard]] const std::string& damage() const noexcept { return damage_; }
  [[nodiscard]] object::ObjectStore& store() noexcept { return store_; }
  [[nodiscard]] Heap& heap() noexcept { return heap_; }
  [[nodiscard]] kv::Table& table() noexcept { return table_; }
  // Accounts are the sum of what is listed, and every record has its object. Empty: so it is.
  [[nodiscard]] std::string contradiction();

 private:
  // The owner may be killed before each of its stores.
  class DeadlyLog final : public StoreLog {
   public:
    DeadlyLog(sim::VisibleMemory& memory, bool is_fenced) noexcept : memory_(memory), is_fenced_(is_fenced) {}
    void stored(Offset at, std::span<const std::byte> bytes) noexcept override;
    void fenced() noexcept override {
      if (is_fenced_) memory_.fenced();
    }

   private:
    sim::VisibleMemory& memory_;
    bool is_fenced_;
  };
  class ClientPins final : public PinSource {
   public:
    explicit ClientPins(const ObjectMemory& memory) noexcept : memory_(memory) {}
    void collect(PinSet& pins) noexcept override;

   private:
    const ObjectMemory& memory_;
  };
  // Readers that claim to have got anything.
  class AnyUses final : public UseSource {
   public:
    explicit AnyUses(uint64_t seed) noexcept : prng_(seed) {}
    void collect_uses(std::vector<uint64_t>& hashes) override;

   private:
    Prng prng_;
  };
  [[nodiscard]] ObjectMutation mutation() const noexcept { return memory_.run_.mutation; }
  void forget_records(object::KeyKind kind, size_t records_max);
  void recover();
  void serve();

  sim::Host& host_;
  ObjectMemory& memory_;
  ObjectOutcome& tally_;
  std::string damage_;
  DeadlyLog log_;
  Writer writer_;
  kv::SessionPins session_pins_;
  ClientPins client_pins_;
  kv::PinSources pins_;
  Heap heap_;
  kv::Table table_;
  kv::NoGrowth growth_;
  AnyUses uses_;
  object::ObjectStore store_;
  std::optional<EarlyReads> early_reads_;
  std::optional<EarlyAborts> early_aborts_;
  std::optional<kv::DomainWindows> windows_;
  std::optional<object::ObjectService> service_;
  std::optional<rpc::Server> server_;
  std::optional<fabric::Dispatcher> dispatcher_;
};

}  // namespace refract::campaign
