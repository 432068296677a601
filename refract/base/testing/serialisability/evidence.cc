// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace refract::serialisability {
namespace {

// A version that was read and whose writer is not known yet.
struct Pending {
  uint32_t key = 0;
  uint64_t version = 0;
  uint32_t reader = 0;  // Index of the first access that tells of it.
  Value value = {};
  uint64_t first_end_ns = kNever;
};

// The writes of one key, before its versions have an order.
struct Writes {
  std::unordered_map<uint64_t, uint32_t> by_version;  // Of a version that is told or found out.
  std::unordered_map<int64_t, std::vector<uint32_t>> untold_by_value;
  std::vector<uint32_t> untold;  // Of unknown value.
  std::vector<uint32_t> refused;
  std::vector<uint32_t> passing;  // Accesses that have some.
  std::unordered_map<uint64_t, size_t> pending;
};

class Collector {
 public:
  Collector(const History& history, const CheckOptions& options, bool by_time, Evidence& evidence)
      : history_(history), options_(options), by_time_(by_time), evidence_(evidence) {}

  [[nodiscard]] std::optional<Anomaly> run(const Inferred& inferred) {
    if (auto wrong = reduce()) return wrong;
    for (const auto& [access, version] : inferred.found) evidence_.accesses[access].claim.version = version;
    for (uint32_t i = 0; i < evidence_.accesses.size(); ++i) {
      if (auto wrong = note_write(i)) return wrong;
    }
    for (uint32_t t = 0; t < history_.transactions.size(); ++t) {
      const Transaction& one = history_.transactions[t];
      if (one.outcome == Outcome::kCommitted || one.is_validated) happen(t);
    }
    for (const uint32_t t : inferred.seen) happen(t);
    do {
      follow();
    } while (resolve_pending());
    for (const Pending& one : pendings_) {
      if (one.version == 0) continue;
      if (auto wrong = explain_unwritten(one)) return wrong;
    }
    return order();
  }

 private:
  [[nodiscard]] Anomaly wrong(Phenomenon phenomenon, std::string sentence, std::vector<size_t> involved) {
    std::ranges::sort(involved);
    const auto repeated = std::ranges::unique(involved);
    involved.erase(repeated.begin(), repeated.end());
    return {.phenomenon = phenomenon,
            .order = Order::kNone,
            .name = name_of(phenomenon, Order::kNone),
            .sentence = std::move(sentence),
            .circle = {},
            .involved = std::move(involved)};
  }
  [[nodiscard]] const Transaction& transaction_of(uint32_t access) const {
    return history_.transactions[evidence_.accesses[access].transaction];
  }
  [[nodiscard]] std::string story_of(uint32_t access) const {
    const Transaction& one = transaction_of(access);
    return fmt::format("{} of {}", to_text(history_, one), name_of(history_.clients, one.client));
  }

  [[nodiscard]] std::optional<Anomaly> reduce() {
    evidence_.history = &history_;
    const auto count = static_cast<uint32_t>(history_.transactions.size());
    evidence_.has_happened.assign(count, false);
    evidence_.nodes = count;
    for (uint32_t t = 0; t < count; ++t) {
      const Transaction& one = history_.transactions[t];
      evidence_.first_access.push_back(static_cast<uint32_t>(evidence_.accesses.size()));
      const std::string why = append_accesses(history_, t, evidence_.accesses);
      const bool counts = one.outcome == Outcome::kCommitted || one.is_validated;
      if (!why.empty() && counts) return wrong(Phenomenon::kInternal, why, {t});
      if (!why.empty() && one.outcome == Outcome::kUnknown) impossible_.push_back(t);
    }
    evidence_.first_access.push_back(static_cast<uint32_t>(evidence_.accesses.size()));
    uint32_t keys = 0;
    for (const Access& access : evidence_.accesses) keys = std::max(keys, access.key + 1);
    evidence_.keys.resize(keys);
    writes_.resize(keys);
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Anomaly> note_write(uint32_t index) {
    Access& access = evidence_.accesses[index];
    Writes& writes = writes_[access.key];
    const Transaction& one = history_.transactions[access.transaction];
    if (!access.passing.empty()) writes.passing.push_back(index);
    if (one.outcome == Outcome::kRefused) {
      if (access.leaves_entry()) writes.refused.push_back(index);
      access.effect = Effect::kNone;
    }
    if (access.effect == Effect::kErase) evidence_.keys[access.key].is_erased_ever = true;
    // What is said of a version before the outcome is known is no evidence.
    if (one.outcome == Outcome::kUnknown) access.version = 0;
    if (!access.leaves_entry()) return std::nullopt;
    if (access.version == 0) {
      (access.value ? writes.untold_by_value[*access.value] : writes.untold).push_back(index);
      return std::nullopt;
    }
    const auto [found, is_new] = writes.by_version.try_emplace(access.version, index);
    if (is_new) return std::nullopt;
    return wrong(Phenomenon::kGarbage,
                 fmt::format("version {} of {} was given twice: to {}, and to {}", access.version,
                             name_of(history_.keys, access.key), story_of(found->second), story_of(index)),
                 {evidence_.accesses[found->second].transaction, access.transaction});
  }

  void happen(uint32_t transaction) {
    if (evidence_.has_happened[transaction]) return;
    evidence_.has_happened[transaction] = true;
    for (uint32_t i = evidence_.first_access[transaction]; i < evidence_.first_access[transaction + 1]; ++i) {
      if (evidence_.accesses[i].claim.version != 0) open_.push_back(i);
    }
  }

  // Whose versions were read has happened, and so on.
  void follow() {
    while (!open_.empty()) {
      const uint32_t index = open_.back();
      open_.pop_back();
      const Access& access = evidence_.accesses[index];
      Writes& writes = writes_[access.key];
      const uint64_t version = access.claim.version;
      if (writes.by_version.contains(version)) continue;
      const auto [at, is_new] = writes.pending.try_emplace(version, pendings_.size());
      if (is_new) pendings_.push_back({.key = access.key, .version = version, .reader = index});
      Pending& pending = pendings_[at->second];
      if (!pending.value) pending.value = access.claim.value;
      pending.first_end_ns = std::min(pending.first_end_ns, end_of(transaction_of(index)));
    }
  }

  [[nodiscard]] bool is_free(uint32_t write, const Pending& pending) const {
    const Access& access = evidence_.accesses[write];
    return access.version == 0 && access.transaction != evidence_.accesses[pending.reader].transaction;
  }
  [[nodiscard]] bool is_too_late(uint32_t write, const Pending& pending) const {
    const Transaction reader{
        .outcome = Outcome::kCommitted, .ended_ns = pending.first_end_ns, .operations = {}};
    return by_time_ && precedes(reader, transaction_of(write), options_);
  }

  // The only write that may have got this version; `count`: how many there are, or at least two.
  [[nodiscard]] uint32_t candidate(const Pending& pending, size_t& count) const {
    const Writes& writes = writes_[pending.key];
    uint32_t in_time = kUnset;
    uint32_t late = kUnset;
    count = 0;
    size_t late_count = 0;
    const auto look = [&](const std::vector<uint32_t>& some) {
      for (const uint32_t write : some) {
        if (count > 1) return;
        if (!is_free(write, pending)) continue;
        if (is_too_late(write, pending)) {
          late = write;
          ++late_count;
        } else {
          in_time = write;
          ++count;
        }
      }
    };
    look(writes.untold);
    if (pending.value) {
      const auto found = writes.untold_by_value.find(*pending.value);
      if (found != writes.untold_by_value.end()) look(found->second);
    } else {
      for (const auto& [value, some] : writes.untold_by_value) look(some);
    }
    if (count > 0) return in_time;
    // All are impossible, so each of them is a contradiction.
    count = std::min<size_t>(late_count, 1);
    return late;
  }

  [[nodiscard]] bool resolve_pending() {
    bool is_changed = false;
    for (Pending& pending : pendings_) {
      if (pending.version == 0) continue;
      size_t count = 0;
      const uint32_t write = candidate(pending, count);
      if (count != 1) continue;
      Access& access = evidence_.accesses[write];
      access.version = pending.version;
      writes_[pending.key].by_version[pending.version] = write;
      pending.version = 0;
      happen(access.transaction);
      is_changed = true;
    }
    return is_changed;
  }

  // Read, and no transaction was told of it: several may have written it, or none.
  [[nodiscard]] std::optional<Anomaly> explain_unwritten(const Pending& pending) {
    size_t count = 0;
    (void)candidate(pending, count);
    if (count > 0) {
      unnamed_.emplace_back(pending.key, State{.version = pending.version,
                                               .writer = evidence_.nodes++,
                                               .value = pending.value,
                                               .readers = {}});
      return std::nullopt;
    }
    const Writes& writes = writes_[pending.key];
    const uint32_t reader = evidence_.accesses[pending.reader].transaction;
    const std::string found =
        fmt::format("version {} of {}", pending.version, name_of(history_.keys, pending.key)) +
        (pending.value ? fmt::format(", {},", *pending.value) : "");
    const auto is_same = [&](uint64_t version, const Value& value) {
      return version == pending.version ||
             (version == 0 && value && pending.value && *value == *pending.value);
    };
    for (const uint32_t write : writes.refused) {
      const Access& access = evidence_.accesses[write];
      if (!is_same(access.version, access.value)) continue;
      return wrong(
          Phenomenon::kG1a,
          fmt::format("{} finds {} which {} wrote", story_of(pending.reader), found, story_of(write)),
          {reader, access.transaction});
    }
    for (const uint32_t write : writes.passing) {
      const Access& access = evidence_.accesses[write];
      for (const auto& [version, value] : access.passing) {
        if (!is_same(version, value) || access.transaction == reader) continue;
        return wrong(Phenomenon::kG1b,
                     fmt::format("{} finds {} which {} wrote and replaced itself", story_of(pending.reader),
                                 found, story_of(write)),
                     {reader, access.transaction});
      }
    }
    return wrong(Phenomenon::kGarbage,
                 fmt::format("{} finds {} which no transaction wrote", story_of(pending.reader), found),
                 {reader});
  }

  [[nodiscard]] std::optional<Anomaly> order() {
    for (KeyEvidence& key : evidence_.keys) key.states.push_back({.readers = {}});
    for (auto& [key, state] : unnamed_) evidence_.keys[key].states.push_back(std::move(state));
    for (uint32_t i = 0; i < evidence_.accesses.size(); ++i) {
      const Access& access = evidence_.accesses[i];
      if (!access.leaves_entry() || access.version == 0) continue;
      if (!evidence_.has_happened[access.transaction]) continue;
      evidence_.keys[access.key].states.push_back({.version = access.version,
                                                   .writer = access.transaction,
                                                   .access = i,
                                                   .value = access.value,
                                                   .readers = {}});
    }
    for (KeyEvidence& key : evidence_.keys) std::ranges::sort(key.states, {}, &State::version);
    for (uint32_t i = 0; i < evidence_.accesses.size(); ++i) {
      if (auto wrong = place(i)) return wrong;
    }
    const auto began = [&](uint32_t access) { return std::pair(transaction_of(access).began_ns, access); };
    for (KeyEvidence& key : evidence_.keys) {
      std::ranges::sort(key.loose_writes, {}, began);
      std::ranges::sort(key.loose_erases, {}, began);
    }
    for (const uint32_t t : impossible_) {
      if (!evidence_.has_happened[t]) continue;
      std::vector<Access> again;
      return wrong(Phenomenon::kInternal, append_accesses(history_, t, again), {t});
    }
    return std::nullopt;
  }

  [[nodiscard]] uint32_t place_of(uint32_t key, uint64_t version) const {
    const std::vector<State>& states = evidence_.keys[key].states;
    return static_cast<uint32_t>(std::ranges::lower_bound(states, version, {}, &State::version) -
                                 states.begin());
  }

  [[nodiscard]] std::optional<Anomaly> place(uint32_t index) {
    Access& access = evidence_.accesses[index];
    KeyEvidence& key = evidence_.keys[access.key];
    if (!evidence_.has_happened[access.transaction]) {
      if (access.is_loose()) (access.leaves_entry() ? key.loose_writes : key.loose_erases).push_back(index);
      return std::nullopt;
    }
    if (access.version != 0 && access.leaves_entry()) {
      access.place = place_of(access.key, access.version);
    }
    if (access.claim.version != 0) {
      access.found_place = place_of(access.key, access.claim.version);
    } else if (access.claim.found == Found::kAbsent && !key.is_erased_ever) {
      access.found_place = 0;
    }
    if (access.found_place == kUnset) {
      if (access.is_loose()) (access.leaves_entry() ? key.loose_writes : key.loose_erases).push_back(index);
      return std::nullopt;
    }
    State& state = key.states[access.found_place];
    if (state.writer == access.transaction) {
      return wrong(Phenomenon::kInternal,
                   fmt::format("{} finds version {} of {} before it writes it itself", story_of(index),
                               state.version, name_of(history_.keys, access.key)),
                   {access.transaction});
    }
    if (auto wrong = learn(state, index)) return wrong;
    state.readers.push_back(access.transaction);
    if (!access.is_loose()) return std::nullopt;
    if (state.overwriter != kUnset) return lost_update(state, index);
    state.overwriter = access.transaction;
    state.is_erased = access.effect == Effect::kErase;
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Anomaly> learn(State& state, uint32_t index) {
    const Access& access = evidence_.accesses[index];
    if (!access.claim.value) return std::nullopt;
    if (!state.value) state.value = access.claim.value;
    if (*state.value == *access.claim.value) return std::nullopt;
    std::vector<size_t> involved = {access.transaction};
    if (state.writer < history_.transactions.size()) involved.push_back(state.writer);
    return wrong(
        Phenomenon::kGarbage,
        fmt::format("{} finds {} in version {} of {}, which is {}", story_of(index), *access.claim.value,
                    state.version, name_of(history_.keys, access.key), *state.value),
        std::move(involved));
  }

  [[nodiscard]] std::optional<Anomaly> lost_update(const State& state, uint32_t index) {
    const Access& access = evidence_.accesses[index];
    Anomaly anomaly =
        wrong(Phenomenon::kLostUpdate,
              fmt::format("{} and {} both replace {} of {}",
                          to_text(history_, history_.transactions[state.overwriter]), story_of(index),
                          state.version == 0 ? "the absence" : fmt::format("version {}", state.version),
                          name_of(history_.keys, access.key)),
              {state.overwriter, access.transaction});
    const auto edge = [&](size_t from, size_t to) {
      anomaly.circle.push_back({.from = from,
                                .to = to,
                                .kind = EdgeKind::kReadWrite,
                                .key = access.key,
                                .version = state.version});
    };
    edge(state.overwriter, access.transaction);
    edge(access.transaction, state.overwriter);
    return anomaly;
  }

  const History& history_;
  const CheckOptions& options_;
  bool by_time_;
  Evidence& evidence_;
  std::vector<Writes> writes_;
  std::vector<Pending> pendings_;
  std::vector<uint32_t> open_;
  std::vector<uint32_t> impossible_;  // Of unknown outcome, and could not happen.
  std::vector<std::pair<uint32_t, State>> unnamed_;
};

}  // namespace

bool precedes(const Transaction& one, const Transaction& other, const CheckOptions& options) {
  const uint64_t end_ns = end_of(one);
  return end_ns < other.began_ns && other.began_ns - end_ns > options.clocks_differ_ns;
}

std::optional<Anomaly> collect(const History& history, const CheckOptions& options, bool by_time,
                               const Inferred& inferred, Evidence& evidence) {
  return Collector(history, options, by_time, evidence).run(inferred);
}

}  // namespace refract::serialisability
