// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/judged_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "refract/base/testing/linearizability/checker.h"
#include "refract/base/testing/linearizability/picture.h"

namespace refract::campaign {

using linearizability::Kind;
using linearizability::Outcome;

JudgedIds::JudgedIds(size_t count) : ids_(count), shows_(std::getenv("REFRACT_SEED") != nullptr) {
  for (size_t i = 0; i < count; ++i) renew(i);
}

size_t JudgedIds::begin(size_t at, Operation call, uint64_t now_ns) {
  call.key = ids_[at].key;
  const size_t operation = recorder_.begin(call, now_ns);
  ids_[at].operations.push_back(operation);
  return operation;
}

void JudgedIds::end(size_t at, size_t operation, const Return& result) {
  std::erase(ids_[at].operations, operation);
  recorder_.end(operation, result);
}

void JudgedIds::tells_also(size_t operation, const Return& result) {
  Operation other = recorder_.operation(operation);
  other.outcome = result.outcome;
  other.value = result.value;
  recorder_.add(other);
}

void JudgedIds::renew(size_t at) {
  Id& id = ids_[at];
  for (const size_t operation : id.operations) {
    Operation& one = recorder_.operation(operation);
    one.outcome = one.kind == Kind::kPut ? Outcome::kUnknown : Outcome::kRefused;
    if (one.kind == Kind::kErase) forget_from(one.began, id.key);
  }
  id.name = fmt::format("id{}", ++last_id_);
  id.key = recorder_.key(id.name);
  id.operations.clear();
}

void JudgedIds::forget_from(size_t erase) {
  const Operation one = recorder_.operation(erase);
  forget_from(one.began, one.key);
}

void JudgedIds::forget_from(uint64_t began, uint32_t key) {
  for (size_t i = 0; i < recorder_.history().operations.size(); ++i) {
    Operation& one = recorder_.operation(i);
    if (one.key != key || one.ended <= began || one.outcome == Outcome::kRefused) continue;
    one.outcome = one.is_write() && one.began < began ? Outcome::kUnknown : Outcome::kRefused;
  }
}

bool JudgedIds::has_put_since(size_t erase) {
  const Operation deleted = recorder_.operation(erase);
  return std::ranges::any_of(recorder_.history().operations, [&](const Operation& one) {
    return one.key == deleted.key && one.kind == Kind::kPut && one.ended > deleted.began;
  });
}

bool JudgedIds::is_deleted_beside(size_t operation) {
  const Operation call = recorder_.operation(operation);
  return std::ranges::any_of(recorder_.history().operations, [&](const Operation& one) {
    return one.key == call.key && one.kind == Kind::kErase && one.ended > call.began;
  });
}

void JudgedIds::note(uint64_t now_ns, std::string_view event) {
  if (!shows_) return;
  events_.push_back(fmt::format("{:.3f} us: {}", static_cast<double>(now_ns) / 1e3, event));
}

void JudgedIds::show(std::string_view name) {
  show(recorder_.key(name));
}

void JudgedIds::show(uint32_t key) const {
  if (!shows_) return;
  const linearizability::History& history = recorder_.history();
  for (const Operation& one : history.operations) {
    if (one.key != key) continue;
    std::printf("%9.3f to %9.3f us, %s: %s\n", static_cast<double>(one.began_ns) / 1e3,
                one.ended_ns == linearizability::kNever ? -1 : static_cast<double>(one.ended_ns) / 1e3,
                history.clients[one.client].c_str(), linearizability::to_text(one).c_str());
  }
  for (const std::string& event : events_) std::printf("%s\n", event.c_str());
}

// While a delete is under way some nodes have the object still, and others may have the next one already.
void JudgedIds::forget_gets_beside_deletes() {
  const size_t count = recorder_.history().operations.size();
  for (size_t i = 0; i < count; ++i) {
    const Operation erase = recorder_.operation(i);
    if (erase.kind != Kind::kErase || !erase.changes()) continue;
    for (size_t k = 0; k < count; ++k) {
      Operation& one = recorder_.operation(k);
      const bool is_beside = one.key == erase.key && one.began < erase.ended && one.ended > erase.began;
      if (is_beside && one.kind == Kind::kGet) one.outcome = Outcome::kRefused;
      // Both may be told that they have deleted it.
      const bool is_twin = is_beside && k > i && one.kind == Kind::kErase && one.outcome == Outcome::kDone;
      if (is_twin) one.outcome = Outcome::kUnknown;
    }
  }
}

std::string JudgedIds::judge() {
  forget_gets_beside_deletes();
  const linearizability::Judgement judgement = linearizability::check(recorder_.history());
  if (!judgement.violation) return {};
  show(judgement.violation->key);
  return fmt::format("{}\n{}", judgement.violation->sentence,
                     linearizability::draw_text(recorder_.history(), *judgement.violation));
}

}  // namespace refract::campaign
