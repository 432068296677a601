// SPDX-License-Identifier: Apache-2.0
// A direct reader of a campaign with the objects that it holds: what it finds is judged at once, and their
// bytes again when it lets go of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/objects/births.h"
#include "tests/objects/object_stage.h"

#include "refract/base/prng.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/testing/test_sim_reader_memory.h"
#include "refract/memory/pins.h"
#include "refract/memory/wide_pins.h"
#include "refract/object/direct/direct_objects.h"

namespace refract::campaign {

// A reader may also be stopped where it asks how far the space goes: so between a look and the pin.
class StoppedReaderMemory : public kv::SimReaderMemory {
 public:
  using SimReaderMemory::SimReaderMemory;

  [[nodiscard]] uint64_t bytes() noexcept;
};

class Holder {
 public:
  // `loads`: of what the owner's memory shows; may stop the reader, while all else continues.
  Holder(ObjectStage& stage, sim::Host& host, std::unique_ptr<sim::LoadSchedule> loads);
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // False: the owner has to be asked.
  bool hold(const std::string& id);
  // One of those that it holds, if any.
  void let_one_go();
  void let_all_go();
  // Looks, and holds nothing.
  [[nodiscard]] Code look(const std::string& id, object::ObjectRecord& record);

 private:
  using Reader = object::DirectObjects<StoppedReaderMemory>;

  struct Handle {
    std::string id;
    BirthFacts facts;
    int pin = -1;
    Offset at;
    uint64_t crashes = 0;  // Of the owner when it was held.
  };
  void let_go(size_t index);
  void judge_bytes(const Handle& handle);
  [[nodiscard]] Reader::Held hold_without_care(const std::string& id);

  ObjectStage& stage_;
  Prng prng_;
  PinWriter pins_;
  WidePins wide_pins_{pins_};
  std::unique_ptr<sim::LoadSchedule> loads_;
  StoppedReaderMemory memory_;
  Reader reader_;
  std::vector<Handle> handles_;
};

}  // namespace refract::campaign
