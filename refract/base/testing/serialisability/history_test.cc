// SPDX-License-Identifier: Apache-2.0
// Histories are recorded, merged, written and read again.
#include "refract/base/testing/serialisability/history.h"

#include <gtest/gtest.h>

#include <array>

#include "refract/base/testing/needed.h"
#include "refract/base/testing/serialisability/history_file.h"
#include "refract/base/testing/serialisability/test_histories.h"

namespace refract::serialisability {
namespace {

TEST(History, a_recorder_keeps_what_was_asked_told_and_when) {
  Recorder recorder;
  const uint32_t client = recorder.client("c0");
  const uint32_t key = recorder.key("k");
  EXPECT_EQ(recorder.client("c0"), client);
  const size_t done = recorder.begin(client, 10);
  recorder.add(done, {.kind = Kind::kPut, .key = key, .value = 7});
  recorder.transaction(done).operations[0].version = 3;
  recorder.end(done, {.outcome = Outcome::kCommitted, .now_ns = 20});
  const size_t lost = recorder.begin(client, 30);
  recorder.add(lost, {.kind = Kind::kErase, .key = key});
  const History& history = recorder.history();
  EXPECT_EQ(to_text(history, history.transactions[done]), "{put k=7 -> version 3} committed");
  EXPECT_EQ(history.transactions[done].ended_ns, 20U);
  EXPECT_EQ(to_text(history, history.transactions[lost]), "{erase k} unknown");
  EXPECT_EQ(history.transactions[lost].ended_ns, kNever);
}

TEST(History, merged_histories_share_keys_and_clients_by_name) {
  Recorder one;
  Recorder other;
  (void)one.key("a");
  one.add(one.begin(one.client("p0"), 1), {.kind = Kind::kGet, .key = one.key("b")});
  other.add(other.begin(other.client("p1"), 2), {.kind = Kind::kGet, .key = other.key("b")});
  const std::array<History, 2> both = {one.history(), other.history()};
  const History all = merge(both);
  ASSERT_EQ(all.transactions.size(), 2U);
  EXPECT_EQ(all.clients, (std::vector<std::string>{"p0", "p1"}));
  EXPECT_EQ(all.transactions[0].operations[0].key, all.transactions[1].operations[0].key);
  EXPECT_EQ(all.keys, (std::vector<std::string>{"b"}));
}

TEST(History, what_is_written_is_read_back) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const History history = test::right_history({.seed = seed});
    const std::string text = write_history(history);
    const History again = refract::test::needed(read_history(text));
    ASSERT_EQ(write_history(again), text) << "seed " << seed;
    ASSERT_EQ(again.transactions.size(), history.transactions.size());
    for (size_t i = 0; i < history.transactions.size(); ++i) {
      ASSERT_EQ(to_text(again, again.transactions[i]), to_text(history, history.transactions[i]));
      ASSERT_EQ(again.transactions[i].ended_ns, history.transactions[i].ended_ns);
    }
  }
}

TEST(History, a_malformed_line_is_named) {
  const std::string names = "client c\nkey k\n";
  const std::array<std::pair<const char*, const char*>, 9> bad = {{
      {"maybe client=0\n", "line 3: 'maybe' begins no line"},
      {"committed client=1 began=0\n", "line 3: there is no client 1; 1 are named"},
      {"committed client=0 began=x\n", "line 3: 'began=x' is unknown, or its value is none"},
      {"committed client=0 colour=3\n", "line 3: 'colour=3' is unknown"},
      {" get key=0\n", "line 3: an operation stands in front of all transactions"},
      {"committed client=0\n look key=0\n", "line 4: 'look' is no operation"},
      {"committed client=0\n get key=1\n", "line 4: there is no key 1"},
      {"committed client=0\n get key=0 found\n", "line 4: 'found' is no field"},
      {"committed client=0\n get key=0 found=perhaps\n", "line 4: 'found=perhaps' is unknown"},
  }};
  for (const auto& [text, wrong] : bad) {
    const Reported<History> history = read_history(names + text);
    ASSERT_FALSE(history.has_value()) << text;
    EXPECT_EQ(history.error().code, Code::kMalformed);
    EXPECT_TRUE(history.error().what.starts_with(wrong)) << history.error().what;
  }
}

// Damaged texts are refused or are another history; none does harm.
TEST(History, damaged_texts_are_read_or_refused) {
  const std::string text = write_history(test::right_history({.seed = 5}));
  Prng prng(7);
  for (int i = 0; i < 3'000; ++i) {
    std::string damaged = text.substr(0, prng.below(text.size() + 1));
    for (uint64_t times = prng.below(4); times > 0 && !damaged.empty(); --times) {
      damaged[prng.below(damaged.size())] = static_cast<char>(prng.below(128));
    }
    const Reported<History> history = read_history(damaged);
    if (!history) continue;
    for (const Transaction& one : history->transactions) {
      ASSERT_LT(one.client, history->clients.size());
      for (const Operation& operation : one.operations) ASSERT_LT(operation.key, history->keys.size());
    }
  }
}

}  // namespace
}  // namespace refract::serialisability
