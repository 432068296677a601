// SPDX-License-Identifier: Apache-2.0
// Histories written by hand: each anomaly in its three kinds, and what must not be taken for one. Client and
// key 0 to 3 are c0 to c3 and w, x, y, z.
//
// A client's transactions that touch in time are ordered by the client alone; those of different clients by
// real time if there is time between them.
#include "refract/base/testing/serialisability/checker.h"

#include <gtest/gtest.h>

#include "refract/base/testing/needed.h"
#include "refract/base/testing/serialisability/history_file.h"
#include "refract/base/testing/serialisability/picture.h"
#include "refract/base/testing/serialisability/test_brute_force.h"

namespace refract::serialisability {
namespace {

History history_of(std::string_view transactions) {
  std::string text = "client c0\nclient c1\nclient c2\nclient c3\nkey w\nkey x\nkey y\nkey z\n";
  return refract::test::needed(read_history(text += transactions));
}

std::string judged(std::string_view transactions, const CheckOptions& options = {}) {
  const Judgement judgement = check(history_of(transactions), options);
  return judgement.anomaly ? judgement.anomaly->name : "good";
}

// All versions are told, so brute force says the same of the whole.
std::string judged_as_by_brute_force(std::string_view transactions) {
  const History history = history_of(transactions);
  const bool is_good = test::BruteForce(history).is_strictly_serialisable();
  const std::string verdict = judged(transactions);
  EXPECT_EQ(verdict == "good", is_good) << verdict << transactions;
  EXPECT_EQ(judged(transactions, {.all_pairs_max = 0}), verdict);
  return verdict;
}

TEST(Checker, an_empty_history_and_one_without_operations_are_good) {
  EXPECT_EQ(judged(""), "good");
  EXPECT_EQ(judged("committed client=0 began=1 ended=2\nunknown client=1 began=3\n"), "good");
}

TEST(Checker, g0_is_a_circle_of_writes) {
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
 put key=2 value=2 version=4
committed client=1 began=0 ended=100
 put key=1 value=3 version=2
 put key=2 value=4 version=3
)"),
            "G0");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=2
committed client=0 began=100 ended=200
 put key=1 value=2 version=1
)"),
            "G0-process");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=2
committed client=1 began=101 ended=200
 put key=1 value=2 version=1
)"),
            "G0-realtime");
  // Touching in time is no order between clients.
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=2
committed client=1 began=100 ended=200
 put key=1 value=2 version=1
)"),
            "good");
}

TEST(Checker, g1a_is_a_read_of_a_refused_write) {
  // By its value alone; by the value with a version that no client was told.
  for (const char* found : {" get key=1 found=present found_value=7\n",
                            " get key=1 found=present found_value=7 found_version=3\n"}) {
    EXPECT_EQ(judged(std::string("refused client=0 began=0 ended=100\n put key=1 value=7\n"
                                 "committed client=1 began=0 ended=100\n") +
                     found),
              "G1a");
  }
  // The same of a lost answer is good.
  EXPECT_EQ(judged_as_by_brute_force(R"(unknown client=0 began=0
 put key=1 value=7
committed client=1 began=0 ended=100
 get key=1 found=present found_value=7 found_version=3
)"),
            "good");
}

TEST(Checker, g1b_is_a_read_of_what_its_writer_replaced_itself) {
  EXPECT_EQ(judged(R"(committed client=0 began=0 ended=100
 put key=1 value=7
 put key=1 value=8 version=4
committed client=1 began=0 ended=100
 get key=1 found=present found_value=7 found_version=3
)"),
            "G1b");
}

TEST(Checker, g1c_is_a_circle_of_writes_and_reads_of_them) {
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
 get key=2 found=present found_value=2 found_version=2
committed client=1 began=0 ended=100
 put key=2 value=2 version=2
 get key=1 found=present found_value=1 found_version=1
)"),
            "G1c");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 get key=1 found=present found_value=1 found_version=1
committed client=0 began=100 ended=200
 put key=1 value=1 version=1
)"),
            "G1c-process");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 get key=1 found=present found_value=1 found_version=1
committed client=1 began=150 ended=200
 put key=1 value=1 version=1
)"),
            "G1c-realtime");
}

TEST(Checker, a_lost_update_replaces_what_it_has_not_seen) {
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
committed client=1 began=0 ended=100
 get key=1 found=present found_version=1
 put key=1 value=2 version=2
committed client=2 began=0 ended=100
 get key=1 found=present found_version=1
 put key=1 value=3 version=3
)"),
            "lost update");
  // Neither was told its version.
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
committed client=1 began=0 ended=100
 get key=1 found=present found_version=1
 put key=1 value=2
committed client=2 began=0 ended=100
 put key=1 value=3 want=version want_version=1
)"),
            "lost update");
  // Two inserts, two erases.
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=1 began=0 ended=100
 put key=1 value=2 want=absent
committed client=2 began=0 ended=100
 put key=1 value=3 want=absent
)"),
            "lost update");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
committed client=1 began=0 ended=100
 erase key=1 found=present found_version=1
committed client=2 began=0 ended=100
 erase key=1 found=present found_version=1
)"),
            "lost update");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=2 version=3
committed client=0 began=100 ended=200
 put key=1 value=3 want=absent
)"),
            "lost update-process");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=2 version=3
committed client=1 began=110 ended=200
 put key=1 value=3 want=absent
)"),
            "lost update-realtime");
}

TEST(Checker, an_add_that_is_lost_is_a_lost_update) {
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 add key=1 amount=1 value=1 version=1
committed client=1 began=0 ended=100
 add key=1 amount=1 value=1 version=2
)"),
            "lost update");
  // The sums are not told, and a reader sees what is missing.
  EXPECT_NE(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 add key=1 amount=1 version=1
committed client=1 began=0 ended=100
 add key=1 amount=1 version=2
committed client=2 began=0 ended=100
 get key=1 found=present found_version=2 found_value=1
)"),
            "good");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 add key=1 amount=1 version=1
committed client=1 began=0 ended=100
 add key=1 amount=1 version=2
committed client=2 began=0 ended=100
 get key=1 found=present found_version=2 found_value=2
)"),
            "good");
}

TEST(Checker, g_single_is_read_skew) {
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
 put key=2 value=2 version=2
committed client=1 began=0 ended=100
 get key=1 found=present found_version=1
 get key=2 found=absent
)"),
            "G-single");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
committed client=0 began=100 ended=200
 get key=1 found=absent
)"),
            "G-single-process");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
committed client=1 began=101 ended=200
 get key=1 found=absent
)"),
            "G-single-realtime");
}

TEST(Checker, long_fork_is_two_readers_that_see_two_writes_in_two_orders) {
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
committed client=1 began=0 ended=100
 put key=2 value=2 version=2
committed client=2 began=0 ended=100
 get key=1 found=present found_version=1
 get key=2 found=absent
committed client=3 began=0 ended=100
 get key=1 found=absent
 get key=2 found=present found_version=2
)"),
            "long fork");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=300
 put key=1 value=1 version=1
committed client=1 began=0 ended=300
 put key=2 value=2 version=2
committed client=2 began=0 ended=100
 get key=1 found=present found_version=1
committed client=2 began=100 ended=200
 get key=2 found=absent
committed client=3 began=0 ended=100
 get key=2 found=present found_version=2
committed client=3 began=100 ended=200
 get key=1 found=absent
)"),
            "long fork-process");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=300
 put key=1 value=1 version=1
committed client=1 began=0 ended=300
 put key=2 value=2 version=2
committed client=2 began=0 ended=300
 get key=1 found=present found_version=1
 get key=2 found=absent
committed client=3 began=0 ended=100
 get key=2 found=present found_version=2
committed client=3 began=110 ended=200
 get key=1 found=absent
)"),
            "long fork-process");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=10
 get key=0 found=absent
unknown client=0 began=20
 put key=1 value=1
unknown client=1 began=0
 put key=2 value=2
committed client=2 began=0 ended=300
 get key=1 found=present found_version=1 found_value=1
 get key=2 found=absent
committed client=3 began=0 ended=100
 get key=2 found=present found_version=2 found_value=2
committed client=0 began=110 ended=200
 get key=1 found=absent
)"),
            "long fork-realtime");
}

TEST(Checker, g2_is_write_skew) {
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 get key=1 found=absent
 put key=2 value=1 version=1
committed client=1 began=0 ended=100
 get key=2 found=absent
 put key=1 value=2 version=2
)"),
            "G2");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=2 value=1 version=1
committed client=0 began=100 ended=200
 get key=1 found=absent
committed client=1 began=0 ended=200
 put key=1 value=2 version=2
 get key=2 found=absent
)"),
            "G2-process");
  EXPECT_EQ(judged_as_by_brute_force(R"(committed client=0 began=0 ended=100
 put key=2 value=1 version=1
committed client=2 began=110 ended=200
 get key=1 found=absent
committed client=1 began=0 ended=200
 put key=1 value=2 version=2
 get key=2 found=absent
)"),
            "G2-realtime");
}

TEST(Checker, internal_is_a_transaction_against_itself) {
  const char* const bad[] = {
      " get key=1 found=absent\n get key=1 found=present\n",
      " get key=1 found=present found_version=1\n get key=1 found=present found_version=2\n",
      " put key=1 value=1\n get key=1 found=absent\n",
      " put key=1 value=1\n get key=1 found=present found_value=2\n",
      " erase key=1\n get key=1 found=present\n",
      " add key=1 amount=2 value=5\n add key=1 amount=1 value=7\n",
      " get key=1 found=present found_value=3\n add key=1 amount=1 value=5\n",
      " get key=1 found=absent\n put key=1 value=1 want=present\n",
      " get key=1 found=present found_version=3\n put key=1 value=1 version=3\n",
      " put key=1 value=1\n put key=1 value=2 want=value want_value=1 condition=unmet\n",
  };
  for (const char* operations : bad) {
    EXPECT_EQ(judged(std::string("committed client=0 began=0 ended=9\n") + operations), "internal")
        << operations;
    // Which of its conditions held is not known of a refused one that does not say it.
    const bool is_told = std::string_view(operations).find("want=present") == std::string_view::npos;
    EXPECT_EQ(judged(std::string("validated client=0 began=0 ended=9\n") + operations) != "good", is_told)
        << operations;
    // What a refused transaction found is not judged.
    EXPECT_EQ(judged(std::string("refused client=0 began=0 ended=9\n") + operations), "good") << operations;
  }
  EXPECT_EQ(judged(R"(committed client=0 began=0 ended=9
 get key=1 found=absent
 put key=1 value=1
 get key=1 found=present found_value=1
 add key=1 amount=4 value=5
 erase key=1
 get key=1 found=absent
 put key=1 value=3 want=absent version=8
)"),
            "good");
}

TEST(Checker, garbage_is_what_no_transaction_wrote) {
  const char* const bad[] = {
      // A version, a value, an entry, another value than was written, a version for two.
      "committed client=0 began=0 ended=9\n get key=1 found=present found_version=5\n",
      "committed client=0 began=0 ended=9\n get key=1 found=present found_value=5\n",
      "committed client=0 began=0 ended=9\n get key=1 found=present\n",
      "committed client=0 began=0 ended=9\n put key=1 value=4 version=5\n"
      "committed client=1 began=0 ended=9\n get key=1 found=present found_version=5 found_value=6\n",
      "committed client=0 began=0 ended=9\n put key=1 value=4 version=5\n"
      "committed client=1 began=0 ended=9\n put key=1 value=6 version=5\n",
  };
  for (const char* transactions : bad) EXPECT_EQ(judged(transactions), "garbage") << transactions;
}

// A reader looks at two keys one after the other while a token is moved between them: each absence was true
// at its moment, and both together never were.
TEST(Checker, a_token_that_moves_between_two_looks_is_seen_missing) {
  const std::string moves = R"(committed client=0 began=0 ended=10
 put key=3 value=1 version=1
committed client=1 began=30 ended=60
 get key=3 found=present found_version=1
 erase key=3
 put key=1 value=2 version=2
committed client=1 began=70 ended=100
 get key=1 found=present found_version=2
 erase key=1
 put key=3 value=3 version=3
committed client=1 began=110 ended=140
 get key=3 found=present found_version=3
 erase key=3
 put key=1 value=4 version=4
)";
  EXPECT_EQ(judged_as_by_brute_force(moves), "good");
  std::string more = moves;
  for (int i = 0; i < 6; ++i) {
    const int from = i % 2 == 0 ? 1 : 3;
    more +=
        "committed client=1 began=" + std::to_string(150 + 40 * i) + " ended=" + std::to_string(180 + 40 * i);
    more += "\n get key=" + std::to_string(from) + " found=present found_version=" + std::to_string(4 + i);
    more += "\n erase key=" + std::to_string(from) + "\n put key=" + std::to_string(4 - from);
    more += " value=1 version=" + std::to_string(5 + i) + "\n";
  }
  EXPECT_EQ(judged(more), "good");
  more += "committed client=2 began=20 ended=500\n get key=1 found=absent\n get key=3 found=absent\n";
  EXPECT_NE(judged(more), "good");
  EXPECT_NE(judged(more, {.all_pairs_max = 0}), "good");
  const std::string both = " get key=1 found=absent\n get key=3 found=absent\n";
  EXPECT_NE(judged_as_by_brute_force(moves + "committed client=2 began=20 ended=500\n" + both), "good");
  EXPECT_NE(judged_as_by_brute_force(moves + "validated client=2 began=20 ended=500\n" + both), "good");
  EXPECT_EQ(judged_as_by_brute_force(moves + "refused client=2 began=20 ended=500\n" + both), "good");
  EXPECT_EQ(
      judged_as_by_brute_force(moves + "committed client=2 began=20 ended=500\n get key=1 found=absent\n"),
      "good");
}

TEST(Checker, absence_needs_an_erase_that_can_come_before_it) {
  const std::string put = "committed client=0 began=0 ended=10\n put key=1 value=1 version=1\n";
  const std::string absent = "committed client=1 began=100 ended=110\n get key=1 found=absent\n";
  EXPECT_EQ(judged_as_by_brute_force(put + absent), "G-single-realtime");
  // Told, not told, of unknown outcome: any of them explains it.
  for (const char* erase :
       {"committed client=2 began=20 ended=30\n erase key=1 found=present found_version=1\n",
        "committed client=2 began=20 ended=30\n erase key=1\n", "unknown client=2 began=20\n erase key=1\n",
        "committed client=2 began=20 ended=105\n erase key=1\n"}) {
    EXPECT_EQ(judged_as_by_brute_force(std::string(put).append(erase).append(absent)), "good") << erase;
  }
  for (const char* erase :
       {"committed client=2 began=120 ended=130\n erase key=1\n",
        "unknown client=2 began=120\n erase key=1\n", "refused client=2 began=20 ended=30\n erase key=1\n",
        "committed client=2 began=20 ended=30\n erase key=1 found=absent\n"}) {
    EXPECT_NE(judged_as_by_brute_force(std::string(put).append(erase).append(absent)), "good") << erase;
  }
}

TEST(Checker, absence_needs_an_erase_behind_what_filled_the_key_again) {
  EXPECT_NE(judged_as_by_brute_force(R"(committed client=0 began=0 ended=10
 put key=1 value=1 version=1
committed client=0 began=20 ended=30
 erase key=1 found=present found_version=1
committed client=1 began=40 ended=50
 put key=1 value=2
committed client=2 began=60 ended=70
 get key=1 found=absent
)"),
            "good");
}

// Two erases, so that it is not known which of them it would have been. A reader looks before the next write
// of the key, or before a write of another one, and both erases come after that.
TEST(Checker, absence_is_not_made_by_erases_that_follow_what_the_reader_missed) {
  for (const char* missed :
       {" put key=1 value=2 version=2\n put key=2 value=1 version=3\n", " put key=2 value=1 version=3\n"}) {
    const std::string history = std::string(
                                    "committed client=0 began=0 ended=10\n put key=1 value=1 version=1\n"
                                    "committed client=1 began=20 ended=30\n") +
                                missed +
                                "committed client=2 began=40 ended=50\n erase key=1\n"
                                "committed client=2 began=60 ended=70\n erase key=1\n"
                                "committed client=3 began=15 ended=100\n get key=1 found=absent\n";
    EXPECT_EQ(judged_as_by_brute_force(history), "good");
    EXPECT_NE(judged_as_by_brute_force(history + " get key=2 found=absent\n"), "good");
  }
}

TEST(Checker, nothing_comes_between_what_a_transaction_reads_and_what_it_writes) {
  EXPECT_NE(judged_as_by_brute_force(R"(committed client=0 began=0 ended=10
 put key=1 value=1 version=1
committed client=1 began=20 ended=100
 get key=1 found=present found_version=1
 put key=1 value=2 version=2
committed client=2 began=20 ended=100
 put key=1 value=9
committed client=3 began=110 ended=120
 get key=1 found=present found_version=2
)"),
            "good");
}

TEST(Checker, of_an_unknown_outcome_end_and_version_do_not_count) {
  EXPECT_EQ(judged(R"(unknown client=0 began=0
 put key=1 value=1 version=5
committed client=1 began=0 ended=9
 put key=1 value=2 version=5
)"),
            "good");
  EXPECT_EQ(judged_as_by_brute_force(R"(unknown client=0 began=0 ended=10
 put key=1 value=1
committed client=1 began=20 ended=30
 get key=1 found=absent
committed client=1 began=30 ended=40
 get key=1 found=present found_value=1 found_version=3
)"),
            "good");
}

TEST(Checker, an_unknown_outcome_has_happened_where_its_effect_is_seen) {
  const std::string lost = "unknown client=0 began=0\n put key=1 value=1\n put key=2 value=2\n";
  const std::string seen =
      "committed client=1 began=10 ended=20\n get key=1 found=present found_value=1 "
      "found_version=5\n";
  const std::string half = "committed client=2 began=30 ended=40\n get key=2 found=absent\n";
  EXPECT_EQ(judged_as_by_brute_force(lost + half), "good");
  EXPECT_EQ(judged_as_by_brute_force(lost + seen), "good");
  EXPECT_EQ(judged_as_by_brute_force(lost + seen + half), "G-single-realtime");
  // By an absence that only its erase explains.
  const std::string moved =
      "committed client=3 began=0 ended=5\n put key=1 value=1 version=1\n"
      "unknown client=0 began=6\n erase key=1\n put key=2 value=2\n"
      "committed client=1 began=10 ended=20\n get key=1 found=absent\n";
  EXPECT_EQ(judged_as_by_brute_force(moved), "good");
  EXPECT_EQ(judged_as_by_brute_force(moved + half), "G-single-realtime");
}

TEST(Checker, clocks_that_differ_order_less) {
  const char* const stale = R"(committed client=0 began=0 ended=100
 put key=1 value=1 version=1
committed client=1 began=130 ended=200
 get key=1 found=absent
)";
  EXPECT_EQ(judged(stale, {.clocks_differ_ns = 29}), "G-single-realtime");
  EXPECT_EQ(judged(stale, {.clocks_differ_ns = 30}), "good");
}

TEST(Checker, what_a_client_did_between_two_transactions_is_left_out) {
  const Judgement judgement = check(history_of(R"(committed client=0 began=0 ended=10
 put key=1 value=1 version=1
committed client=0 began=10 ended=20
 get key=2 found=absent
committed client=0 began=20 ended=30
 get key=1 found=absent
)"));
  ASSERT_TRUE(judgement.anomaly);
  EXPECT_EQ(judgement.broken, Order::kProcess);
  EXPECT_EQ(judgement.anomaly->involved, (std::vector<size_t>{0, 2}));
}

TEST(Checker, a_contradiction_is_told_and_drawn) {
  const History history = history_of(R"(committed client=0 began=1000 ended=2000
 put key=1 value=1 version=1
committed client=1 began=3000 ended=4000
 get key=1 found=absent
committed client=2 began=0 ended=9000
 put key=2 value=1 version=2
)");
  const Judgement judgement = check(history);
  ASSERT_TRUE(judgement.anomaly);
  const Anomaly& anomaly = *judgement.anomaly;
  EXPECT_EQ(anomaly.phenomenon, Phenomenon::kGSingle);
  EXPECT_EQ(anomaly.order, Order::kRealTime);
  EXPECT_EQ(anomaly.involved, (std::vector<size_t>{0, 1}));
  ASSERT_EQ(anomaly.circle.size(), 2U);
  const std::string text = draw_text(history, anomaly);
  EXPECT_NE(text.find("G-single-realtime: #0 of c0 ended before #1 of c1 began; #1 of c1 sees"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("{put x=1 -> version 1} committed  [1.000, 2.000] us"), std::string::npos) << text;
  EXPECT_NE(text.find("A -> B  real time"), std::string::npos) << text;
  EXPECT_NE(text.find("B -> A  rw x"), std::string::npos) << text;
  const std::string svg = draw_svg(history, anomaly);
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find(">real time</text>"), std::string::npos);
}

}  // namespace
}  // namespace refract::serialisability
