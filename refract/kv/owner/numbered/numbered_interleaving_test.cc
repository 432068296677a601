// SPDX-License-Identifier: Apache-2.0
// A numbered write is executed once or told not to be, wherever its server is killed, and again in the
// recovery.
//
// Method: the stores of one operation, and of another writer's erasure behind it, are recorded, and where
// their log's records stand among them. The server is killed behind each number of stores; the stores of the
// recovery are recorded likewise, and it is killed behind each number of these, with its log's ring or
// without it. What the next recovery finds is judged: the client asks, and repeats what was not executed.
// Then rules are broken on purpose (the order of stores, or what a recovery makes of the memory), and a
// schedule must show it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/testing/test_kills.h"
#include "refract/kv/testing/test_log.h"

namespace refract::kv::numbered_interleaving_test {
namespace {

using functions::Function;
using test::bytes_of;
using test::KilledMemory;
using test::KilledOwner;
using test::ManualLog;
using test::Stores;
using Kind = NumberedOperation::Kind;

constexpr uint64_t kNumber = 5;
constexpr const char* kNothing = "nothing";

struct Case {
  std::string name;
  std::string key;
  std::function<void(KilledOwner&)> prepare;
  std::function<NumberedOperation(KilledOwner&)> operation;
  std::vector<std::string> evicted = {};  // By its buffer.
  uint64_t away_ns = 0;                   // So long no server runs.
};

TableKey key_of(KilledOwner& owner, std::string_view key) {
  return owner.table().hashed(bytes_of(key));
}
NumberedOperation put(KilledOwner& owner, std::string_view key, std::string_view value) {
  return {.number = kNumber, .key = key_of(owner, key), .value = bytes_of(value)};
}
NumberedOperation erase(KilledOwner& owner, std::string_view key) {
  return {.number = kNumber, .kind = Kind::kErase, .key = key_of(owner, key)};
}
NumberedOperation run(KilledOwner& owner, std::string_view key, Function function,
                      std::span<const std::byte> arguments) {
  return {.number = kNumber,
          .kind = Kind::kFunction,
          .key = key_of(owner, key),
          .value = arguments,
          .function = function};
}
NumberedOperation add(KilledOwner& owner, std::string_view key) {
  static constexpr int64_t kOne = 1;
  return run(owner, key, Function::kAdd, std::as_bytes(std::span(&kOne, 1)));
}
NumberedOperation commit(KilledOwner& owner, std::string_view key) {
  const Table::Draft draft = refract::test::needed(owner.table().begin(key_of(owner, key), 5, {}));
  owner.table().fill(draft, 0, bytes_of("draft"));
  return {.number = kNumber, .kind = Kind::kCommit, .draft = draft};
}

void has_41(KilledOwner& owner) {
  owner.put("n", "41");
}
void has_nothing(KilledOwner& owner) {
  REFRACT_CHECK(owner.table().stats().entries == 0);
}
// The next insertion splits buckets.
void is_about_to_split(KilledOwner& owner) {
  for (int number = 0; number < 84; ++number) owner.put("filler " + std::to_string(number), "v");
}
// Its slot is one that the split clears.
std::string key_that_moves() {
  KilledMemory memory;
  const ManualClock clock;
  memory.format();
  KilledOwner owner(memory, clock);
  owner.format();
  for (int number = 0;; ++number) {
    std::string key = "counter " + std::to_string(number);
    const uint64_t hash = owner.table().hash(bytes_of(key));
    if (bucket_index(hash, 16) == 0 && bucket_index(hash, 17) == 16) return key;
  }
}
std::vector<std::string> keys_of_one_bucket() {
  test::Space space({.chunks = 8, .chunks_max = 8});
  return test::keys_of_bucket(space.table(), 3, 16, 8);
}
void is_full(KilledOwner& owner) {
  owner.put("n", std::string(300, 'n'));
  const std::string value(60'000, 'f');
  for (int number = 0;; ++number) {
    if (!owner.table().put(bytes_of("large " + std::to_string(number)), bytes_of(value), {})) return;
  }
}

std::vector<Case> cases() {
  static const std::string kMoving = key_that_moves();
  static const std::vector<std::string> kBucket = keys_of_one_bucket();
  static const std::string kLong(70'000, 'x');
  static const std::string kMore(64, '+');
  const auto in_n = [](auto operation) {
    return [operation](KilledOwner& owner) { return operation(owner, "n"); };
  };
  std::vector<std::string> evicted{"n"};
  for (int number = 0; number < 17; ++number) evicted.push_back("large " + std::to_string(number));
  std::vector<Case> cases;
  cases.push_back({"add over an entry", "n", has_41, in_n(add)});
  cases.push_back({"add that inserts", "n", has_nothing, in_n(add)});
  cases.push_back({"add that begins a split", kMoving, is_about_to_split,
                   [](KilledOwner& owner) { return add(owner, kMoving); }});
  cases.push_back({"put that links a line", kBucket[7],
                   [](KilledOwner& owner) {
                     for (size_t i = 0; i < 7; ++i) owner.put(kBucket[i], "v");
                   },
                   [](KilledOwner& owner) { return put(owner, kBucket[7], "behind seven"); }});
  cases.push_back({"erase", "n", has_41, in_n(erase)});
  cases.push_back({"erase of nothing", "n", has_nothing, in_n(erase)});
  cases.push_back({"put that is refused", "n", has_41, [](KilledOwner& owner) {
                     NumberedOperation operation = put(owner, "n", "other");
                     operation.if_absent = true;
                     return operation;
                   }});
  cases.push_back(
      {"put of a long value", "n", has_41, [](KilledOwner& owner) { return put(owner, "n", kLong); }});
  cases.push_back({"commit of a draft", "n", has_41, in_n(commit)});
  cases.push_back({"put that expires while no server runs",
                   "n",
                   has_41,
                   [](KilledOwner& owner) {
                     NumberedOperation operation = put(owner, "n", "short-lived");
                     operation.expires_wall_ns = ManualClock().wall_ns() + 50;
                     return operation;
                   },
                   {},
                   100});
  cases.push_back({"append whose buffer evicts what it appends to", "n", is_full,
                   [](KilledOwner& owner) { return run(owner, "n", Function::kAppend, bytes_of(kMore)); },
                   evicted});
  return cases;
}
Case case_of(std::string_view name) {
  for (Case& one : cases()) {
    if (one.name == name) return one;
  }
  REFRACT_CHECK(false);
}

// What the stores of an operation were.
struct Recorded {
  Stores stores;
  std::vector<size_t> logged;  // How many stores stood in front of each of the log's records.
  size_t own = 0;              // Which of these is the operation's.
  bool has_own = false;
  size_t end = 0;  // How many stores are the operation's.
  Offset record_at;
  Offset slot_at;

  [[nodiscard]] size_t find(Offset at, size_t nth = 0) const {
    for (size_t i = 0; i < stores.size(); ++i) {
      if (stores[i].at == at && nth-- == 0) return i;
    }
    REFRACT_CHECK(false);
  }
  [[nodiscard]] size_t number() const { return find(record_at); }
  [[nodiscard]] size_t words() const { return find(record_at.plus(8)); }
  [[nodiscard]] size_t mark() const { return find(record_at.plus(8), 1); }
  [[nodiscard]] size_t slot() const { return find(slot_at); }
};
// What stood at `from` stands in front of what stood at `to`.
void move(Stores& stores, size_t from, size_t to) {
  const auto first = stores.begin();
  if (from < to) {
    std::rotate(first + static_cast<ptrdiff_t>(from), first + static_cast<ptrdiff_t>(from) + 1,
                first + static_cast<ptrdiff_t>(to));
  } else {
    std::rotate(first + static_cast<ptrdiff_t>(to), first + static_cast<ptrdiff_t>(from),
                first + static_cast<ptrdiff_t>(from) + 1);
  }
}

// What is done otherwise than page 077 says.
struct Rule {
  std::string name;
  std::string in;  // In which case a schedule shows it.
  bool has_log = false;
  std::function<void(Recorded&)> order = nullptr;
  // What each recovery begins with.
  std::function<Stores(KilledMemory&, const Recorded&)> recovery = nullptr;
  std::function<void(Stores&, const Recorded&)> recovery_order = nullptr;
};

class Kills {
 public:
  Kills(Case which, bool has_log) : case_(std::move(which)) {
    original_.format();
    KilledOwner owner(original_, clock_);
    owner.format();
    session_ = owner.session().id();
    case_.prepare(owner);
    const NumberedOperation operation = case_.operation(owner);
    before_ = owner.value_of(case_.key);
    base_.copy(original_);
    record(owner, operation, has_log);
    clock_.advance_ns(case_.away_ns);
    if (case_.away_ns != 0) after_ = kNothing;
    first_.copy(base_);
    second_.copy(base_);
    shadow_.copy(base_);
  }

  // Nothing: all schedules end as they must.
  [[nodiscard]] std::optional<std::string> first_wrong(const Rule& rule = {}) {
    recorded_ = as_it_was_;
    if (rule.order) rule.order(recorded_);
    rule_ = &rule;
    for (size_t killed = 0;; ++killed) {
      for (size_t records = records_before(killed); records <= records_before(killed + 1); ++records) {
        if (is_within_value(killed)) continue;
        if (auto wrong = kill_again(killed, records)) return wrong;
      }
      if (killed == recorded_.stores.size()) return std::nullopt;
      for (KilledMemory* const memory : {&base_, &first_, &second_, &shadow_}) {
        memory->apply(recorded_.stores[killed]);
      }
    }
  }
  [[nodiscard]] size_t runs() const { return runs_; }

 private:
  void record(KilledOwner& owner, const NumberedOperation& operation, bool has_log) {
    std::optional<test::Evictor> evictor;
    if (!case_.evicted.empty()) evictor.emplace(owner.table(), case_.evicted);
    if (has_log) owner.table().log_to(&log_);
    owner.list().clear();
    log_.on_append = [&](const ManualLog::Record&) {
      as_it_was_.logged.push_back(owner.list().stores().size());
    };
    outcome_ = owner.execute(operation);
    as_it_was_.end = owner.list().stores().size();
    as_it_was_.has_own = outcome_.version != 0 && has_log;
    if (as_it_was_.has_own) as_it_was_.own = log_.records.size() - 1;
    after_ = owner.value_of(case_.key);
    (void)owner.table().erase(bytes_of(case_.key), 0);
    as_it_was_.stores = owner.list().stores();
    const Offset block{original_.word(kSessionsAt)};
    as_it_was_.record_at = block.plus((1 + uint64_t{outcome_.place}) * sizeof(SessionRecord));
    const RecordState state{original_.word(as_it_was_.record_at.plus(8))};
    as_it_was_.slot_at = state.word_at();
    log_.on_append = nullptr;
  }

  // Of a long one no reader is led to every word is the same.
  [[nodiscard]] bool is_within_value(size_t killed) const {
    constexpr size_t kWords = 64;
    if (killed < kWords || killed + 1 >= recorded_.stores.size()) return false;
    for (size_t i = killed - kWords; i < killed; ++i) {
      if (recorded_.stores[i].at.plus(8) != recorded_.stores[i + 1].at) return false;
    }
    return true;
  }
  // Of those that stand in front of so many stores.
  [[nodiscard]] size_t records_before(size_t stores) const {
    return static_cast<size_t>(
        std::ranges::count_if(recorded_.logged, [stores](size_t at) { return at < stores; }));
  }
  [[nodiscard]] std::optional<ChangeLog::Change> last_of(size_t records) const {
    if (records == 0) return std::nullopt;
    const ManualLog::Record& record = log_.records[records - 1];
    ChangeLog::Change change = record.change();
    if (record.value.size() < 64 * 1024) return change;
    change.value = {};
    change.buffer = record.buffer;
    return change;
  }

  [[nodiscard]] Stores begin_recovery(KilledMemory& memory) const {
    const Stores stores = rule_->recovery ? rule_->recovery(memory, recorded_) : Stores{};
    for (const sim::Store& store : stores) memory.apply(store);
    return stores;
  }

  [[nodiscard]] std::optional<std::string> kill_again(size_t killed, size_t records) {
    const std::optional<ChangeLog::Change> last = last_of(records);
    Stores recovery = begin_recovery(first_);
    KilledOwner owner(first_, clock_);
    const bool is_recovered = owner.try_start(last ? &*last : nullptr).has_value();
    const Stores& stores = owner.list().stores();
    recovery.insert(recovery.end(), stores.begin(), stores.end());
    first_.undo(recovery, base_);
    const std::string when = case_.name + ", killed behind " + std::to_string(killed);
    if (!is_recovered) return when + ": no recovery";
    if (rule_->recovery_order) rule_->recovery_order(recovery, recorded_);
    std::optional<std::string> wrong;
    for (size_t again = 0; !wrong; ++again) {
      const bool is_whole = again == recovery.size();
      for (const bool has_ring : {true, false}) {
        if (wrong || (!has_ring && !last)) continue;
        const bool is_logged = recorded_.has_own && records > recorded_.own;
        wrong = judge(killed, has_ring && last ? &*last : nullptr,
                      {.must_be_told = killed >= recorded_.end || (is_logged && (has_ring || is_whole)),
                       .may_be_told = !recorded_.has_own || is_logged});
        if (wrong)
          *wrong = when + " and " + std::to_string(again) + (has_ring ? ": " : ", no ring: ") + *wrong;
      }
      if (is_whole) break;
      second_.apply(recovery[again]);
      shadow_.apply(recovery[again]);
    }
    second_.undo(recovery, base_);
    shadow_.undo(recovery, base_);
    return wrong;
  }

  struct Expected {
    bool must_be_told = false;
    bool may_be_told = true;  // Else the log lacks it.
  };
  [[nodiscard]] std::optional<std::string> judge(size_t killed, const ChangeLog::Change* last,
                                                 const Expected& expected) {
    ++runs_;
    Stores touched = begin_recovery(second_);
    std::optional<std::string> wrong;
    const auto in_process = [&](const ChangeLog::Change* change, auto look) {
      KilledOwner owner(second_, clock_);
      const bool is_up = owner.try_start(change).has_value();
      if (!is_up) wrong = "no recovery";
      const SecretDigest& secret = KilledOwner::kSecret;
      if (is_up && !owner.table().sessions().resume(session_, secret, KilledOwner::kConnection)) {
        wrong = "the session is not known";
      }
      if (!wrong) wrong = look(owner);
      touched.insert(touched.end(), owner.list().stores().begin(), owner.list().stores().end());
    };
    in_process(last, [&](KilledOwner& owner) { return ask_and_repeat(owner, killed, expected); });
    if (!wrong) {
      // Others have changed the key since, and no kill is about this number.
      const Stores begun = begin_recovery(second_);
      touched.insert(touched.end(), begun.begin(), begun.end());
      in_process(nullptr, [&](KilledOwner& owner) { return ask_later(owner); });
    }
    second_.undo(touched, shadow_);
    return wrong;
  }

  [[nodiscard]] bool is_first_answer(const NumberedOutcome& other) const {
    return other.code == outcome_.code && other.version == outcome_.version &&
           other.place == outcome_.place && other.answer_bytes == outcome_.answer_bytes &&
           other.answer == outcome_.answer;
  }
  [[nodiscard]] std::optional<std::string> ask_and_repeat(KilledOwner& owner, size_t killed,
                                                          const Expected& expected) {
    const std::string value = owner.value_of(case_.key);
    const auto told = owner.table().sessions().find(owner.session(), kNumber);
    const bool is_erased = killed >= recorded_.end && value == kNothing;
    if (told) {
      if (!is_first_answer(*told)) return "it is told another answer";
      if (value != after_ && !is_erased) return "it is told to be executed, and is not there";
      if (!expected.may_be_told) return "it is told to be executed, and the log lacks it";
    } else {
      if (expected.must_be_told) return "it is executed or logged, and told not to be";
      const bool is_evicted = !case_.evicted.empty() && value == kNothing;
      if (value != before_ && !is_evicted) return "it is told not to be executed, and is there";
    }
    if (const auto damage = owner.table().validate()) return damage->what;
    const NumberedOutcome again = owner.execute(case_.operation(owner));
    has_record_ = again.place != kPlaceUnknown;
    const std::string then = owner.value_of(case_.key);
    if (again.is_told_again != told.has_value()) return "its record is not looked at";
    if (told && (!is_first_answer(again) || then != value)) return "it is executed twice";
    if (!told && has_record_ && (then != after_ || again.code != outcome_.code))
      return "repeated it is another";
    is_answered_ = again;
    (void)owner.table().erase(bytes_of(case_.key), 0);
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::string> ask_later(KilledOwner& owner) const {
    const auto told = owner.table().sessions().find(owner.session(), kNumber);
    if (told.has_value() != has_record_) return "what was told is forgotten";
    if (told && (told->code != is_answered_.code || told->version != is_answered_.version)) {
      return "what was told is another by now";
    }
    return std::nullopt;
  }

  const Case case_;
  ManualClock clock_;
  ManualLog log_;
  uint64_t session_ = 0;
  std::string before_;
  std::string after_;
  NumberedOutcome outcome_;
  Recorded as_it_was_;
  Recorded recorded_;
  const Rule* rule_ = nullptr;
  bool has_record_ = false;
  NumberedOutcome is_answered_;
  KilledMemory original_;  // Behind all of it.
  KilledMemory base_;      // Behind the first kill; likewise the next, in which a recovery runs.
  KilledMemory first_;
  KilledMemory second_;  // Behind the second kill; likewise the next.
  KilledMemory shadow_;
  size_t runs_ = 0;
};

TEST(NumberedInterleaving, each_number_is_executed_once_or_told_not_to_be) {
  for (const Case& one : cases()) {
    for (const bool has_log : {false, true}) {
      Kills kills(one, has_log);
      EXPECT_EQ(kills.first_wrong(), std::nullopt) << (has_log ? "with a log" : "without a log");
      EXPECT_GT(kills.runs(), 50U) << one.name;
    }
  }
}

// Its record, as a recovery finds it; null: there is none, or it is marked.
uint64_t* open_state(KilledMemory& memory, const Recorded& recorded) {
  const bool is_there = memory.word(recorded.record_at) != 0;
  uint64_t& state = memory.word(recorded.record_at.plus(8));
  return is_there && !RecordState{state}.is_marked() ? &state : nullptr;
}
bool has_stored(KilledMemory& memory, const Recorded& recorded) {
  return memory.word(recorded.slot_at) != memory.word(recorded.record_at.plus(24));
}
size_t found(const Stores& stores, Offset at) {
  const auto is_at = [at](const sim::Store& store) { return store.at == at; };
  return static_cast<size_t>(std::ranges::find_if(stores, is_at) - stores.begin());
}

// The order of an operation's stores.
void add_orders(std::vector<Rule>& rules) {
  const auto of_order = [&](std::string name, std::string in, bool has_log,
                            std::function<void(Recorded&)> order) {
    rules.push_back(
        {.name = std::move(name), .in = std::move(in), .has_log = has_log, .order = std::move(order)});
  };
  of_order("the number in front of its words", "add over an entry", false,
           [](Recorded& r) { move(r.stores, r.number(), r.words()); });
  of_order("the log's record in front of the session's", "add over an entry", true,
           [](Recorded& r) { r.logged[r.own] = r.words(); });
  of_order("the slot in front of the record", "add over an entry", false,
           [](Recorded& r) { move(r.stores, r.slot(), r.words()); });
  of_order("the slot in front of the log's record", "add over an entry", true,
           [](Recorded& r) { r.logged[r.own] = r.slot() + 1; });
  of_order("the mark in front of the slot", "add over an entry", false,
           [](Recorded& r) { move(r.stores, r.mark(), r.slot()); });
  of_order("no mark", "add that inserts", false, [](Recorded& r) {
    r.stores.erase(r.stores.begin() + static_cast<ptrdiff_t>(r.mark()));
    --r.end;
  });
  of_order("the mark behind the split", "add that begins a split", false,
           [](Recorded& r) { move(r.stores, r.mark(), r.end); });
  of_order("no record of a refusal", "put that is refused", false, [](Recorded& r) {
    r.stores.erase(r.stores.begin() + static_cast<ptrdiff_t>(r.number()));
    --r.end;
  });
}

// What a recovery makes of a record.
void add_recoveries(std::vector<Rule>& rules) {
  const auto of_recovery = [&](std::string name, std::string in, bool has_log, auto recovery) {
    rules.push_back({.name = std::move(name),
                     .in = std::move(in),
                     .has_log = has_log,
                     .order = nullptr,
                     .recovery = std::move(recovery)});
  };
  of_recovery("the last record is believed", "add over an entry", false,
              [](KilledMemory& memory, const Recorded& r) -> Stores {
                const uint64_t* const state = open_state(memory, r);
                if (state == nullptr) return {};
                return {{.at = r.record_at.plus(8), .word = RecordState{*state}.marked().bits}};
              });
  of_recovery("marked ones are compared", "add that inserts", false,
              [](KilledMemory& memory, const Recorded& r) -> Stores {
                const uint64_t state = memory.word(r.record_at.plus(8));
                if (memory.word(r.record_at) == 0) return {};
                return {{.at = r.record_at.plus(8), .word = state & ~RecordState::kMarked}};
              });
  of_recovery("the log alone tells", "add over an entry", false,
              [](KilledMemory& memory, const Recorded& r) -> Stores {
                if (open_state(memory, r) == nullptr) return {};
                return {{.at = r.record_at.plus(24), .word = memory.word(r.slot_at)}};
              });
  of_recovery("the slot alone tells", "add over an entry", true,
              [](KilledMemory& memory, const Recorded& r) -> Stores {
                if (open_state(memory, r) == nullptr || has_stored(memory, r)) return {};
                return {{.at = r.record_at, .word = 0}};
              });
}

// The order in which it makes the log's last change again.
void add_recovery_orders(std::vector<Rule>& rules) {
  rules.push_back({.name = "what is made again is marked behind its split",
                   .in = "add that begins a split",
                   .has_log = true,
                   .order = nullptr,
                   .recovery = nullptr,
                   .recovery_order = [](Stores& stores, const Recorded& r) {
                     const size_t mark = found(stores, r.record_at.plus(8));
                     if (mark < stores.size()) move(stores, mark, stores.size());
                   }});
  rules.push_back({.name = "what is made again is marked in front of its slot",
                   .in = "add over an entry",
                   .has_log = true,
                   .order = nullptr,
                   .recovery = nullptr,
                   .recovery_order = [](Stores& stores, const Recorded& r) {
                     const size_t mark = found(stores, r.record_at.plus(8));
                     const size_t slot = found(stores, r.slot_at);
                     if (mark < stores.size() && slot < mark) move(stores, mark, slot);
                   }});
}

TEST(NumberedInterleaving, each_broken_rule_is_found) {
  std::vector<Rule> rules;
  add_orders(rules);
  add_recoveries(rules);
  add_recovery_orders(rules);
  for (const Rule& rule : rules) {
    Kills kills(case_of(rule.in), rule.has_log);
    EXPECT_TRUE(kills.first_wrong(rule)) << rule.name;
  }
}

}  // namespace
}  // namespace refract::kv::numbered_interleaving_test
