// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/holder.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "tests/objects/object_owner.h"

namespace refract::campaign {

using object::ObjectParts;
using object::ObjectRecord;

namespace {

constexpr size_t kHandlesMax = 3;

[[nodiscard]] BirthFacts facts_of(const ObjectRecord& record) {
  return {.birth = record.birth, .body_bytes = record.body_bytes, .metadata_bytes = record.metadata_bytes};
}

[[nodiscard]] uint64_t filled_bytes(const BirthFacts& facts) {
  return ObjectParts{.body_bytes = facts.body_bytes, .metadata_bytes = facts.metadata_bytes}.filled_bytes();
}

}  // namespace

uint64_t StoppedReaderMemory::bytes() noexcept {
  constexpr int kLoads = 16;
  for (int i = 0; i < kLoads; ++i) (void)observe({0});
  return SimReaderMemory::bytes();
}

Holder::Holder(ObjectStage& stage, sim::Host& host, std::unique_ptr<sim::LoadSchedule> loads)
    : stage_(stage),
      prng_(stage.world.prng().next()),
      pins_(stage.memory.add_pin_table()),
      loads_(std::move(loads)),
      memory_({stage.memory.visible().image(), stage.memory.visible().bytes(), loads_.get()}, &pins_),
      reader_(memory_, wide_pins_, host.clock()) {}

Code Holder::look(const std::string& id, ObjectRecord& record) {
  return reader_.look(std::as_bytes(std::span(id)), record);
}

// As a mutation: the pin is announced, and the record is not looked at again.
Holder::Reader::Held Holder::hold_without_care(const std::string& id) {
  Reader::Held held;
  held.code = look(id, held.record);
  if (held.code == Code::kOk && reader_.is_inside(held.record, id.size())) {
    held.pin = reader_.pin(held.record);
  }
  return held;
}

bool Holder::hold(const std::string& id) {
  if (handles_.size() == kHandlesMax) let_one_go();
  const uint64_t begun_ns = stage_.now_ns();
  const Reader::Held held = stage_.run.mutation == ObjectMutation::kNoSecondLook
                                ? hold_without_care(id)
                                : reader_.hold(std::as_bytes(std::span(id)));
  if (held.code == Code::kInvalidated) return false;
  if (held.code == Code::kNotFound) {
    ++stage_.outcome.missing;
    stage_.complain(stage_.births.judge_missing(id, begun_ns, stage_.now_ns()));
    return true;
  }
  if (held.code != Code::kOk) {
    stage_.complain(fmt::format("a direct get of {} gave '{}'", id, info(held.code).text));
    return true;
  }
  ++stage_.outcome.found;
  stage_.complain(stage_.births.judge_found(id, facts_of(held.record), begun_ns));
  handles_.push_back({.id = id,
                      .facts = facts_of(held.record),
                      .pin = held.pin,
                      .at = Offset{held.record.object_at + ObjectParts::body_at()},
                      .crashes = stage_.owner.crash_count()});
  judge_bytes(handles_.back());
  return true;
}

void Holder::judge_bytes(const Handle& handle) {
  if (stage_.is_over()) return;
  std::vector<std::byte> bytes(filled_bytes(handle.facts));
  if (!bytes.empty()) memory_.copy(bytes.data(), handle.at, bytes.size());
  const Births::Wrong wrong = Births::judge_bytes(handle.facts, bytes);
  if (wrong) stage_.complain(fmt::format("behind a handle of {}: {}", handle.id, *wrong));
}

void Holder::let_go(size_t index) {
  const Handle handle = std::exchange(handles_[index], handles_.back());
  handles_.pop_back();
  judge_bytes(handle);
  ++stage_.outcome.held;
  if (handle.crashes != stage_.owner.crash_count()) ++stage_.outcome.held_over_crash;
  const Births::Birth* birth = stage_.births.find(handle.facts.birth);
  if (birth != nullptr && birth->deleted_ns != Births::kNever) ++stage_.outcome.held_over_delete;
  reader_.let_go(handle.pin);
}

void Holder::let_one_go() {
  if (!handles_.empty()) let_go(prng_.below(handles_.size()));
}

void Holder::let_all_go() {
  while (!handles_.empty()) let_go(handles_.size() - 1);
}

}  // namespace refract::campaign
