// SPDX-License-Identifier: Apache-2.0
// What all parts of a run share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "tests/objects/births.h"
#include "tests/objects/object_memory.h"
#include "tests/objects/object_run.h"

#include "refract/base/prng.h"
#include "refract/fabric/sim/world.h"

namespace refract::campaign {

[[nodiscard]] inline std::string any_id(Prng& prng, const ObjectRun& run) {
  return fmt::format("object-{}", prng.below(static_cast<uint64_t>(run.ids)));
}

struct ObjectStage {
  const ObjectRun& run;
  sim::World& world;
  sim::Host& owner;
  ObjectMemory& memory;
  Births births;
  ObjectOutcome outcome;
  int workers_left = 0;

  // The first complaint stays, and ends the run.
  void complain(const Births::Wrong& wrong);
  [[nodiscard]] bool is_over() const noexcept { return !outcome.wrong.empty(); }
  [[nodiscard]] uint64_t now_ns() const noexcept { return world.now_ns(); }
};

}  // namespace refract::campaign
