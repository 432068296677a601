// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/births.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "refract/base/prng.h"

namespace refract::campaign {
namespace {

[[nodiscard]] std::string name_of(const std::string& id, uint64_t birth) {
  return fmt::format("{} (birth {:x})", id, birth);
}

// The padding is zeroes, as a creator's memory has it.
[[nodiscard]] std::byte byte_at(const BirthFacts& facts, uint64_t at) {
  const uint64_t metadata_at = (facts.body_bytes + 7) / 8 * 8;
  if (at >= facts.body_bytes && at < metadata_at) return std::byte{0};
  return static_cast<std::byte>(mix(facts.birth + at / 8) >> (at % 8 * 8));
}

}  // namespace

Births::Birth* Births::find(uint64_t birth) {
  const auto found = births_.find(birth);
  return found == births_.end() ? nullptr : &found->second;
}

void Births::begin(Birth birth) {
  birth.crashes_begun = crashes_;
  const uint64_t number = birth.facts.birth;
  births_.emplace(number, std::move(birth));
}

void Births::end(uint64_t birth, uint64_t now_ns) {
  Birth* one = find(birth);
  if (one == nullptr) return;
  one->ended_ns = now_ns;
  one->crashes_ended = crashes_;
}

Births::Wrong Births::sealed(uint64_t birth, uint64_t now_ns) {
  Birth* one = find(birth);
  one->sealed_ns = std::min(one->sealed_ns, now_ns);
  if (evicts_) return std::nullopt;
  for (const auto& [other_birth, other] : births_) {
    if (other_birth == birth || other.id != one->id) continue;
    if (other.sealed_ns < one->begun_ns && other.delete_begun_ns > now_ns) {
      return fmt::format("{} was sealed although {} has its id", name_of(one->id, birth),
                         name_of(other.id, other_birth));
    }
  }
  return std::nullopt;
}

void Births::begin_delete(const std::string& id, uint64_t birth, uint64_t now_ns) {
  last_deleted_ = id;
  for (auto& [number, one] : births_) {
    if (one.id != id || (birth != 0 && number != birth)) continue;
    one.delete_begun_ns = std::min(one.delete_begun_ns, now_ns);
  }
}

void Births::deleted(uint64_t birth, uint64_t now_ns) {
  if (Birth* one = find(birth)) one->deleted_ns = std::min(one->deleted_ns, now_ns);
}

void Births::gone(uint64_t birth, uint64_t now_ns) {
  if (Birth* one = find(birth)) one->gone_ns = std::min(one->gone_ns, now_ns);
}

Births::Wrong Births::judge_refused(uint64_t birth, uint64_t now_ns) const {
  const Birth& mine = births_.at(birth);
  for (const auto& [number, other] : births_) {
    if (number == birth || other.id != mine.id || other.begun_ns > now_ns) continue;
    const bool was_there = other.gone_ns >= mine.begun_ns && other.deleted_ns >= mine.begun_ns;
    if (was_there || may_come_back(other)) return std::nullopt;
  }
  return fmt::format("{} was refused although no other object has its id", name_of(mine.id, birth));
}

bool Births::may_come_back(const Birth& birth) const noexcept {
  const uint64_t crashes_ended = birth.ended_ns == kNever ? crashes_ : birth.crashes_ended;
  return birth.is_put && birth.deleted_ns < birth.ended_ns && birth.crashes_begun != crashes_ended;
}

Births::Wrong Births::judge_found(const std::string& id, const BirthFacts& facts, uint64_t begun_ns) {
  const Birth* one = find(facts.birth);
  if (one == nullptr) return fmt::format("{} was found, and never made", name_of(id, facts.birth));
  if (one->id != id) return fmt::format("{} was found as {}", name_of(one->id, facts.birth), id);
  if (one->facts.body_bytes != facts.body_bytes || one->facts.metadata_bytes != facts.metadata_bytes) {
    return fmt::format("{} was found with {} and {} bytes, and made with {} and {}", name_of(id, facts.birth),
                       facts.body_bytes, facts.metadata_bytes, one->facts.body_bytes,
                       one->facts.metadata_bytes);
  }
  if (one->deleted_ns < begun_ns && !may_come_back(*one)) {
    return fmt::format("{} was found {} us after it had been deleted", name_of(id, facts.birth),
                       (begun_ns - one->deleted_ns) / 1'000);
  }
  return std::nullopt;
}

Births::Wrong Births::judge_missing(const std::string& id, uint64_t begun_ns, uint64_t ended_ns) const {
  if (evicts_) return std::nullopt;
  for (const auto& [birth, one] : births_) {
    if (one.id != id) continue;
    if (one.sealed_ns < begun_ns && one.delete_begun_ns > ended_ns) {
      return fmt::format("{} was not found", name_of(id, birth));
    }
  }
  return std::nullopt;
}

Births::Wrong Births::judge_bytes(const BirthFacts& facts, std::span<const std::byte> bytes) {
  for (uint64_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] == byte_at(facts, at)) continue;
    return fmt::format("byte {} of {} of the object with birth {:x} is {:x} and not {:x}", at, bytes.size(),
                       facts.birth, std::to_integer<int>(bytes[at]),
                       std::to_integer<int>(byte_at(facts, at)));
  }
  return std::nullopt;
}

void Births::fill(const BirthFacts& facts, std::span<std::byte> bytes) {
  for (uint64_t at = 0; at < bytes.size(); ++at) bytes[at] = byte_at(facts, at);
}

}  // namespace refract::campaign
