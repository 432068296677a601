// SPDX-License-Identifier: Apache-2.0
// A transaction over two shards whose owners tell logs of it: wherever their server is killed, all processes
// die, or the host does, the next server finds all of it or nothing, in memory and on the disk alike.
//
// Method: every store of both spaces and every append of both logs is a moment. At each, the next server
// takes up the memory and the logs; another one has the logs alone; and with a log that confirms late, one
// has what was confirmed of each, and any more of either.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/testing/turns.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_two_shards.h"

namespace refract::kv::parts_log_test {
namespace {

using refract::test::kStride;
using test::bytes_of;
using test::KeyOfTwo;
using test::kKeys;
using test::text_of;
using test::TwoShards;

using Name = std::pair<uint64_t, uint64_t>;
Name name_of(const TransactionName& name) {
  return {name.place.bits, name.number};
}

// Of one shard.
class PartsLog final : public ChangeLog, public PartLog {
 public:
  enum class What : uint8_t { kChange, kPrepared, kDecided, kSettled };
  struct Made {
    uint64_t stamp = 0;
    std::string key;
    std::optional<std::string> value;  // Nothing: an erasure.
  };
  struct Record {
    What what = What::kChange;
    Name name = {};
    bool has_happened = false;
    std::vector<Made> changes = {};
    size_t stores_before = 0;
  };

  [[nodiscard]] Code room_for(uint64_t, uint64_t) const noexcept override { return room; }
  [[nodiscard]] Code room_for_group(uint64_t, uint64_t) const noexcept override { return room; }
  void append(const Change& change) noexcept override { add({.changes = made({&change, 1})}); }
  void append_group(uint64_t, std::span<const Change> changes) noexcept override {
    add({.changes = made(changes)});
  }
  void append_prepared(const TransactionName& name, uint64_t number,
                       std::span<const Change> changes) noexcept override {
    EXPECT_GT(changes.front().stamp, number);
    add({.what = What::kPrepared, .name = name_of(name), .changes = made(changes)});
  }
  void append_decided(const TransactionName& name, uint64_t,
                      std::span<const Change> changes) noexcept override {
    add({.what = What::kDecided, .name = name_of(name), .changes = made(changes)});
  }
  void append_settled(const TransactionName& name, uint64_t, bool has_happened) noexcept override {
    add({.what = What::kSettled, .name = name_of(name), .has_happened = has_happened});
  }
  [[nodiscard]] uint64_t appended() const noexcept override { return records.size(); }
  [[nodiscard]] uint64_t confirmed() const noexcept override {
    return confirms_late ? confirmed_records : records.size();
  }
  [[nodiscard]] Code failure() const noexcept override { return failed; }
  [[nodiscard]] uint64_t needed_until(Offset) const noexcept override { return 0; }

  Code room = Code::kOk;
  Code failed = Code::kOk;
  bool confirms_late = false;
  size_t confirmed_records = 0;
  std::deque<Record> records;
  std::function<size_t()> stores = [] { return size_t{0}; };

 private:
  static std::vector<Made> made(std::span<const Change> changes) {
    std::vector<Made> all;
    for (const Change& one : changes) {
      all.push_back({.stamp = one.stamp, .key = text_of(one.key), .value = std::nullopt});
      if (one.kind == Kind::kPut) all.back().value = text_of(one.value);
    }
    return all;
  }
  void add(Record record) {
    record.stores_before = stores();
    for (const Made& one : record.changes) {
      EXPECT_GT(one.stamp, last_stamp_);
      last_stamp_ = one.stamp;
    }
    records.push_back(std::move(record));
  }
  uint64_t last_stamp_ = 0;
};

using Logs = std::array<std::vector<PartsLog::Record>, 2>;
using Contents = std::map<std::string, std::string>;

// What a start from the disk makes of the logs.
std::array<Contents, 2> replayed(const Logs& logs) {
  std::set<Name> decided;
  for (const auto& log : logs) {
    for (const PartsLog::Record& record : log) {
      if (record.what == PartsLog::What::kDecided) decided.insert(record.name);
    }
  }
  std::array<Contents, 2> contents;
  for (size_t shard = 0; shard < 2; ++shard) {
    std::map<Name, const PartsLog::Record*> open;
    const auto make = [&](const PartsLog::Record& record) {
      for (const PartsLog::Made& one : record.changes) {
        if (one.value) {
          contents[shard][one.key] = *one.value;
        } else {
          contents[shard].erase(one.key);
        }
      }
    };
    for (const PartsLog::Record& record : logs[shard]) {
      if (record.what == PartsLog::What::kPrepared) {
        open[record.name] = &record;
      } else if (record.what != PartsLog::What::kSettled) {
        make(record);
      } else if (const auto found = open.find(record.name); found != open.end()) {
        if (record.has_happened) make(*found->second);
        open.erase(found);
      }
    }
    for (const auto& [name, record] : open) {
      if (decided.contains(name)) make(*record);
    }
  }
  return contents;
}

// Whether all keys are new; nothing: some are.
std::optional<bool> is_new(const std::array<Contents, 2>& contents) {
  std::optional<bool> all;
  for (const KeyOfTwo& key : kKeys) {
    const auto found = contents[key.shard].find(key.name);
    const std::string value = found == contents[key.shard].end() ? "not_found" : found->second;
    if (value != key.before && value != key.after) return std::nullopt;
    if (all && *all != (value == key.after)) return std::nullopt;
    all = value == key.after;
  }
  return all;
}

std::array<Contents, 2> contents_of(TwoShards& node) {
  std::array<Contents, 2> contents;
  for (const KeyOfTwo& key : kKeys) {
    const Result<Table::Entry> entry = node.table(key.shard).find(bytes_of(key.name));
    if (entry) contents[key.shard][key.name] = text_of(entry->value);
  }
  return contents;
}

// Two shards with logs.
struct Logged {
  Logged() { log_to(node); }
  // From an image, with what the logs have.
  Logged(std::span<const std::byte> image, const Logs& had) : node(image) {
    for (size_t shard = 0; shard < 2; ++shard) {
      logs[shard].records.assign(had[shard].begin(), had[shard].end());
      logs[shard].confirmed_records = had[shard].size();
    }
  }
  ~Logged() {
    for (const uint32_t shard : {0U, 1U}) node.table(shard).log_to(nullptr);
  }
  void log_to(TwoShards& of) {
    for (const uint32_t shard : {0U, 1U}) {
      of.table(shard).log_to(&logs[shard]);
      of.parts(shard).log_to(&logs[shard]);
    }
  }
  // As a server does that takes up memory and logs.
  [[nodiscard]] bool recover(uint32_t first) {
    for (const uint32_t shard : {first, 1 - first}) {
      if (!node.table(shard).recover()) return false;
      node.table(shard).log_to(&logs[shard]);
      node.parts(shard).log_to(&logs[shard]);
      std::optional<TransactionName> decided;
      const auto& records = logs[shard].records;
      if (!records.empty() && records.back().what == PartsLog::What::kDecided) {
        decided = {.place = {records.back().name.first}, .number = records.back().name.second};
      }
      node.parts(shard).take_up(decided);
    }
    // What one could not settle because the other had not taken up its words.
    for (const uint32_t shard : {0U, 1U}) (void)node.parts(shard).on_log_progress();
    return true;
  }
  [[nodiscard]] Logs all() const {
    Logs copies;
    for (size_t shard = 0; shard < 2; ++shard) {
      copies[shard].assign(logs[shard].records.begin(), logs[shard].records.end());
    }
    return copies;
  }

  PartsLog logs[2];
  TwoShards node;
};

enum class Fate : uint8_t { kCommitted, kAborted };

void put_before(Logged& of) {
  for (const KeyOfTwo& key : kKeys) {
    if (key.before != "not_found") of.node.put(key.shard, key.name, key.before);
  }
  for (const uint32_t shard : {0U, 1U}) of.node.parts(shard).take_up(std::nullopt);
}

TransactionName begin(Logged& of) {
  HomeWords words(*of.node.decisions, 0, 0);
  const std::vector<HomeWords::Given> given = words.give(7, 1, 0);
  EXPECT_EQ(given.size(), 1U);
  return {.place = given.at(0).place, .number = given.at(0).first};
}

void run(Logged& of, Fate fate) {
  put_before(of);
  const TransactionName name = begin(of);
  of.node.record([&] {
    for (PartsLog& log : of.logs) log.stores = [&of] { return of.node.stores_so_far(); };
    test::ChangeOfAll there(of.node, 1);
    TableBatch part = there.batch();
    ASSERT_TRUE(of.node.parts(1).prepare(part, {.name = name}));
    test::ChangeOfAll here(of.node, 0);
    TableBatch home = here.batch();
    if (fate == Fate::kCommitted) {
      ASSERT_TRUE(of.node.parts(0).decide(home, name));
    }
    ASSERT_EQ(of.node.parts(1).settle(name), fate == Fate::kCommitted ? Code::kOk : Code::kConflict);
    of.node.put(1, "another", "3");
    of.node.put(0, "another", "3");
  });
}

// What the logs had behind so many stores; `with_next`: and what was appended right behind them.
Logs logs_at(const Logged& of, size_t stores, bool with_next) {
  Logs logs = of.all();
  for (auto& log : logs) {
    std::erase_if(log, [&](const PartsLog::Record& record) {
      return record.stores_before > stores || (record.stores_before == stores && !with_next && stores != 0);
    });
  }
  return logs;
}

TEST(PartsLog, a_kill_at_any_store_leaves_memory_and_logs_that_say_the_same) {
  for (const Fate fate : {Fate::kCommitted, Fate::kAborted}) {
    Logged of;
    run(of, fate);
    for (size_t stores = 1; stores <= of.node.stores.size(); stores += kStride) {
      for (const bool with_next : {false, true}) {
        SCOPED_TRACE(testing::Message() << stores << (with_next ? ", with the next append" : ""));
        const Logs logs = logs_at(of, stores, with_next);
        const std::optional<bool> on_disk = is_new(replayed(logs));
        ASSERT_TRUE(on_disk.has_value());
        Logged next(of.node.image_behind(stores), logs);
        ASSERT_TRUE(next.recover(stores / 2 % 2));
        EXPECT_EQ(is_new(contents_of(next.node)), on_disk);
        // And all that the next one has told its logs.
        EXPECT_EQ(is_new(replayed(next.all())), on_disk);
        EXPECT_EQ(next.node.parts(0).count() + next.node.parts(1).count(), 0U);
        for (const uint32_t shard : {0U, 1U}) EXPECT_FALSE(next.node.table(shard).validate());
        EXPECT_TRUE(next.node.decisions->are_recovered());
      }
    }
  }
}

TEST(PartsLog, so_does_a_second_kill_while_the_first_is_recovered_from) {
  Logged of;
  run(of, Fate::kCommitted);
  for (size_t stores = 2; stores <= of.node.stores.size(); stores += 9 * kStride) {
    const Logs logs = logs_at(of, stores, true);
    const std::optional<bool> on_disk = is_new(replayed(logs));
    Logged second(of.node.image_behind(stores), logs);
    second.node.record([&] {
      for (PartsLog& log : second.logs) log.stores = [&] { return second.node.stores_so_far(); };
      for (PartsLog& log : second.logs) {
        for (PartsLog::Record& record : log.records) record.stores_before = 0;
      }
      ASSERT_TRUE(second.recover(1));
    });
    for (size_t more = 0; more <= second.node.stores.size(); ++more) {
      for (const bool with_next : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << stores << ", then " << more << (with_next ? " and an append" : ""));
        const Logs left = logs_at(second, more, with_next);
        ASSERT_EQ(is_new(replayed(left)), on_disk);
        Logged third(second.node.image_behind(more), left);
        ASSERT_TRUE(third.recover(0));
        EXPECT_EQ(is_new(contents_of(third.node)), on_disk);
        EXPECT_EQ(is_new(replayed(third.all())), on_disk);
      }
    }
  }
}

// With a log that confirms late. Each step of this life is one of: a turn of an owner, the confirmation of
// what a log has. Behind each, every pair of ends that a host may leave of the logs.
class LateLife {
 public:
  LateLife() {
    put_before(of_);
    for (PartsLog& log : of_.logs) {
      log.confirms_late = true;
      log.confirmed_records = log.records.size();
    }
    name_ = begin(of_);
  }
  void prepare() {
    test::ChangeOfAll there(of_.node, 1);
    TableBatch part = there.batch();
    ASSERT_TRUE(of_.node.parts(1).prepare(part, {.name = name_}));
  }
  void decide() {
    test::ChangeOfAll here(of_.node, 0);
    TableBatch home = here.batch();
    ASSERT_TRUE(of_.node.parts(0).decide(home, name_));
  }
  Code settle() { return of_.node.parts(1).settle(name_); }
  void confirm(size_t shard) {
    of_.logs[shard].confirmed_records = of_.logs[shard].records.size();
    (void)of_.node.parts(static_cast<uint32_t>(shard)).on_log_progress();
  }
  void write(uint32_t shard) { of_.node.put(shard, "another", "3"); }
  [[nodiscard]] bool is_decided() { return of_.node.decisions->look(name_.place).is_committed(); }
  [[nodiscard]] uint32_t counted_on() { return of_.node.decisions->parts(name_.place); }
  [[nodiscard]] Logged& of() { return of_; }

  // Returns how many pairs end new, and how many old.
  std::pair<size_t, size_t> look_at_all_ends() {
    std::pair<size_t, size_t> counts;
    const Logs all = of_.all();
    for (size_t home = of_.logs[0].confirmed_records; home <= all[0].size(); ++home) {
      for (size_t part = of_.logs[1].confirmed_records; part <= all[1].size(); ++part) {
        const Logs cut{{{all[0].begin(), all[0].begin() + static_cast<ptrdiff_t>(home)},
                        {all[1].begin(), all[1].begin() + static_cast<ptrdiff_t>(part)}}};
        const std::optional<bool> ended = is_new(replayed(cut));
        EXPECT_TRUE(ended.has_value()) << home << " and " << part << " records";
        if (ended) ++(*ended ? counts.first : counts.second);
      }
    }
    return counts;
  }

 private:
  Logged of_;
  TransactionName name_;
};

TEST(PartsLog, a_part_is_settled_when_the_homes_log_has_confirmed_the_decision) {
  LateLife life;
  life.prepare();
  EXPECT_EQ(life.look_at_all_ends().first, 0U);
  life.confirm(1);
  life.decide();
  EXPECT_TRUE(life.is_decided());
  EXPECT_EQ(life.settle(), Code::kOverloaded);
  life.write(1);
  EXPECT_EQ(life.look_at_all_ends(), std::pair(size_t{2}, size_t{2}));
  life.confirm(1);
  EXPECT_EQ(life.settle(), Code::kOverloaded);
  life.confirm(0);
  EXPECT_EQ(life.settle(), Code::kOk);
  EXPECT_EQ(life.look_at_all_ends().second, 0U);
  // The home does not forget it before the disk has what became of it there.
  EXPECT_EQ(life.counted_on(), 1U);
  EXPECT_EQ(life.of().node.parts(0).decisions_to_keep().size(), 1U);
  life.confirm(1);
  EXPECT_EQ(life.counted_on(), 0U);
  EXPECT_TRUE(life.of().node.parts(0).decisions_to_keep().empty());
}

TEST(PartsLog, nothing_is_settled_while_a_log_has_failed_or_has_no_room) {
  LateLife life;
  life.prepare();
  life.confirm(1);
  life.decide();
  life.confirm(0);
  PartsLog& log = life.of().logs[1];
  log.failed = Code::kIndeterminate;
  EXPECT_EQ(life.settle(), Code::kOverloaded);
  log.failed = Code::kOk;
  log.room = Code::kOverloaded;
  EXPECT_EQ(life.settle(), Code::kOverloaded);
  EXPECT_EQ(life.of().node.parts(1).count(), 1U);
  log.room = Code::kOk;
  life.confirm(1);
  EXPECT_EQ(life.of().node.parts(1).count(), 0U);
  EXPECT_EQ(is_new(contents_of(life.of().node)), true);
}

// What must be found: a settled part that stands in the log before the decision does.
TEST(PartsLog, a_part_that_is_settled_too_early_is_found) {
  LateLife life;
  life.prepare();
  life.confirm(1);
  life.decide();
  PartsLog& log = life.of().logs[1];
  log.records.push_back({.what = PartsLog::What::kSettled,
                         .name = log.records.back().name,
                         .has_happened = true,
                         .stores_before = 0});
  const Logs all = life.of().all();
  Logs cut = all;
  cut[0].pop_back();
  EXPECT_FALSE(is_new(replayed(cut)).has_value());
}

}  // namespace
}  // namespace refract::kv::parts_log_test
