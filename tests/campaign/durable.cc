// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/durable.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace refract::campaign {
namespace {

using linearizability::Kind;
using linearizability::Operation;
using linearizability::Outcome;

// Of one key in one life of the host: from the first lost change to the crash.
struct Loss {
  uint64_t from = UINT64_MAX;
  uint64_t to = 0;
  std::set<uint64_t> stamps;
  std::vector<uint64_t> erasures;  // The moments when they were appended.
};

bool overlaps(const Operation& operation, const Loss& loss) noexcept {
  return operation.ended >= loss.from && operation.began <= loss.to;
}

// Whether it was acknowledged, and is lost.
bool is_lost(const Operation& operation, const Loss& loss) noexcept {
  if (operation.outcome != Outcome::kDone) return false;
  if (operation.kind == Kind::kPut) return loss.stamps.contains(operation.version);
  return std::ranges::any_of(loss.erasures, [&](uint64_t moment) {
    return operation.kind == Kind::kErase && operation.began <= moment && moment <= operation.ended;
  });
}

using Losses = std::map<std::string, std::map<uint64_t, Loss>>;  // By key, then by crash.

Losses losses_of(const RivalStage& stage) {
  Losses losses;
  for (const RivalStage::TakenBack& one : stage.taken_back) {
    Loss& loss = losses[stage.name_of(1, one.lost.key)][one.crashed];
    loss.from = std::min(loss.from, one.lost.appended);
    loss.to = one.crashed;
    if (one.lost.erases) {
      loss.erasures.push_back(one.lost.appended);
    } else {
      loss.stamps.insert(one.lost.stamp);
    }
  }
  return losses;
}

}  // namespace

uint64_t forget_what_was_taken_back(RivalStage& stage) {
  const Losses losses = losses_of(stage);
  const std::set<size_t> by_reading(stage.refused_by_reading.begin(), stage.refused_by_reading.end());
  const bool is_always = stage.run.durability == Durability::kAlways;
  uint64_t forgotten = 0;
  const size_t count = stage.recorder.history().operations.size();
  for (size_t i = 0; i < count; ++i) {
    Operation& operation = stage.recorder.operation(i);
    const auto found = losses.find(stage.recorder.history().keys[operation.key]);
    if (found == losses.end()) continue;
    for (const auto& [crashed, loss] : found->second) {
      if (!overlaps(operation, loss)) continue;
      if (is_lost(operation, loss)) {
        // An eviction is acknowledged to no client.
        const bool is_eviction = stage.recorder.history().clients[operation.client] == RivalStage::kEvictor;
        if (is_always && operation.kind == Kind::kPut) {
          stage.complain(fmt::format("an acknowledged write is lost: {}", to_text(operation)));
        }
        if (is_always && !is_eviction) continue;
        operation.outcome = Outcome::kUnknown;
        operation.version = 0;
        operation.ended = linearizability::kNever;
        ++forgotten;
        continue;
      }
      const bool is_told = operation.outcome != Outcome::kUnknown && operation.outcome != Outcome::kRefused;
      const bool has_read = !operation.is_write() || by_reading.contains(i) || !is_always;
      if (!is_told || !has_read || operation.changes()) continue;
      operation.outcome = Outcome::kRefused;
      ++forgotten;
    }
  }
  return forgotten;
}

}  // namespace refract::campaign
