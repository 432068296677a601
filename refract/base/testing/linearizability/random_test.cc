// SPDX-License-Identifier: Apache-2.0
// The checker against the definition: thousands of small histories, right ones and spoilt ones, judged by
// the search and by trying every order. And its speed, in steps, on large ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "refract/base/testing/linearizability/checker.h"
#include "refract/base/testing/linearizability/test_brute_force.h"
#include "refract/base/testing/linearizability/test_histories.h"
#include "refract/base/testing/turns.h"

namespace refract::linearizability {
namespace {

using test::BruteForce;
using test::Recipe;

std::string all_of(const History& history) {
  std::string text;
  for (const Operation& one : history.operations) {
    text += fmt::format(
        "\n  c{} [{}, {}] {} expires {} to {}", one.client, one.began, static_cast<int64_t>(one.ended),
        to_text(one), static_cast<int64_t>(one.expires_from_ns), static_cast<int64_t>(one.expires_until_ns));
  }
  return text;
}

constexpr size_t kOperations = refract::test::turns(100'000, 10'000);

Recipe small(uint64_t seed) {
  Recipe recipe{.seed = seed, .clients = 2 + static_cast<uint32_t>(seed % 3)};
  recipe.operations = 4 + seed % 5;
  recipe.unknown_chance = seed % 2 == 0 ? 0.3 : 0.05;
  recipe.expiring_chance = seed % 3 == 0 ? 0.5 : 0;
  recipe.tells_versions = seed % 7 != 0;
  return recipe;
}

TEST(Random, histories_of_a_true_store_are_good_by_search_and_by_brute_force) {
  for (uint64_t seed = 1; seed <= 4'000; ++seed) {
    const History history = test::right_history(small(seed));
    ASSERT_TRUE(check(history).is_good()) << "seed " << seed << all_of(history);
    ASSERT_FALSE(check_versions(history)) << "seed " << seed << all_of(history);
    ASSERT_TRUE(BruteForce(history.operations).is_linearizable()) << "seed " << seed << all_of(history);
  }
}

TEST(Random, spoilt_histories_are_judged_as_brute_force_judges_them) {
  uint64_t good = 0;
  uint64_t bad = 0;
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    History history = test::right_history(small(seed));
    Prng prng(mix(seed));
    for (uint64_t times = 1 + prng.below(2); times > 0; --times) test::spoil(history, prng);
    const bool is_good = BruteForce(history.operations).is_linearizable();
    const Judgement judgement = check(history);
    ASSERT_EQ(judgement.is_good(), is_good) << "seed " << seed << all_of(history);
    ++(is_good ? good : bad);
  }
  EXPECT_GT(good, 3'000U);
  EXPECT_GT(bad, 3'000U);
}

// A register as other systems' histories have it: few values, compare-and-set by value, no versions, and a
// failure that does not say whether there was another value or none.
Recipe register_of(uint64_t seed) {
  Recipe recipe{.seed = seed, .clients = 2 + static_cast<uint32_t>(seed % 3)};
  recipe.operations = 4 + seed % 5;
  recipe.unknown_chance = seed % 2 == 0 ? 0.3 : 0.05;
  recipe.tells_versions = false;
  recipe.values = 2 + seed % 3;
  recipe.value_condition_chance = 0.6;
  return recipe;
}

// Mostly conditions on versions that are not the one, of an entry whose own no client was told.
Recipe many_mismatches(uint64_t seed) {
  Recipe recipe{.seed = seed, .clients = 3, .operations = 7};
  recipe.unknown_chance = 0.4;
  recipe.condition_chance = 0.9;
  return recipe;
}

TEST(Random, registers_and_many_mismatches_are_judged_as_brute_force_judges_them) {
  uint64_t good = 0;
  uint64_t bad = 0;
  for (uint64_t seed = 1; seed <= 12'000; ++seed) {
    const Recipe recipe = seed % 3 == 0 ? many_mismatches(seed) : register_of(seed);
    History history = test::right_history(recipe);
    ASSERT_TRUE(check(history).is_good()) << "seed " << seed << all_of(history);
    Prng prng(mix(seed));
    for (uint64_t times = 1 + prng.below(2); times > 0; --times) test::spoil(history, prng);
    const bool is_good = BruteForce(history.operations).is_linearizable();
    ASSERT_EQ(check(history).is_good(), is_good) << "seed " << seed << all_of(history);
    ++(is_good ? good : bad);
  }
  EXPECT_GT(good, 2'000U);
  EXPECT_GT(bad, 700U);
}

// What is called the contradiction is one: by brute force, and without the operations that were left out.
TEST(Random, the_window_of_a_small_history_contradicts_itself) {
  uint64_t judged = 0;
  for (uint64_t seed = 1; seed <= 4'000; ++seed) {
    History history = test::right_history(small(seed));
    Prng prng(mix(seed));
    test::spoil(history, prng);
    const Judgement judgement = check(history);
    if (judgement.is_good()) continue;
    ASSERT_TRUE(judgement.violation);
    const Violation& violation = *judgement.violation;
    ASSERT_TRUE(std::ranges::binary_search(violation.involved, violation.convicted)) << "seed " << seed;
    // Reads of the window, all writes: the reads that were left out are not needed.
    std::vector<Operation> left;
    for (size_t i = 0; i < history.operations.size(); ++i) {
      const Operation& one = history.operations[i];
      if (one.changes() || std::ranges::binary_search(violation.involved, i)) left.push_back(one);
    }
    ASSERT_FALSE(BruteForce(left).is_linearizable()) << "seed " << seed << all_of(history);
    ++judged;
  }
  EXPECT_GT(judged, 500U);
}

struct Timed {
  Judgement judgement;
  double seconds = 0;
};

Timed timed_check(const History& history) {
  const auto begin = std::chrono::steady_clock::now();
  Timed timed{.judgement = check(history)};
  timed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return timed;
}

TEST(Random, a_hundred_thousand_operations_take_a_few_steps_each) {
  struct Shape {
    const char* name;
    Recipe recipe;
    uint64_t steps_max_each;
  };
  const Shape shapes[] = {
      {"one key, 16 clients", {.clients = 16, .keys = 1, .operations = kOperations}, 120},
      {"one key, 64 clients",
       {.clients = 64, .keys = 1, .operations = kOperations, .unknown_chance = 0},
       300},
      {"1,000 keys, 16 clients", {.clients = 16, .keys = 1'000, .operations = kOperations}, 60},
      {"100 keys, expiring",
       {.clients = 16,
        .keys = 100,
        .operations = kOperations,
        .unknown_chance = 0.002,
        .expiring_chance = 0.3},
       60},
      {"100 keys, no versions",
       {.clients = 4,
        .keys = 100,
        .operations = kOperations,
        .unknown_chance = 0.01,
        .tells_versions = false},
       60},
  };
  for (const Shape& shape : shapes) {
    Recipe recipe = shape.recipe;
    recipe.seed = 7;
    // In one key most unknown writes are never noticed and stay for ever; a program has few of them.
    if (recipe.keys == 1) recipe.unknown_chance = std::min(recipe.unknown_chance, 0.001);
    const Timed timed = timed_check(test::right_history(recipe));
    EXPECT_TRUE(timed.judgement.is_good()) << shape.name;
    EXPECT_LT(timed.judgement.steps, shape.steps_max_each * kOperations) << shape.name;
    fmt::print("{}: {} operations in {:.3f} s, {:.1f} steps each\n", shape.name, kOperations, timed.seconds,
               static_cast<double>(timed.judgement.steps) / static_cast<double>(kOperations));
  }
}

// A single wrong answer among many, and the part that proves it is small.
TEST(Random, one_stale_read_among_a_hundred_thousand_operations_is_found_and_isolated) {
  History history = test::right_history(
      {.seed = 3, .clients = 16, .keys = 10, .operations = kOperations, .unknown_chance = 0.01});
  std::vector<Operation>& all = history.operations;
  for (size_t i = kOperations / 2; i < all.size(); ++i) {
    if (all[i].kind != Kind::kGet || all[i].outcome != Outcome::kDone || all[i].value == 0) continue;
    // What stood there some time ago.
    for (size_t j = i - 2'000; j > 0; --j) {
      if (all[j].key != all[i].key || all[j].kind != Kind::kPut || all[j].outcome != Outcome::kDone) continue;
      all[i].value = all[j].value;
      all[i].version = all[j].version;
      break;
    }
    const Timed timed = timed_check(history);
    ASSERT_TRUE(timed.judgement.violation);
    EXPECT_EQ(timed.judgement.violation->convicted, i);
    EXPECT_LE(timed.judgement.violation->involved.size(), 4U) << timed.judgement.violation->sentence;
    fmt::print("a stale read found and isolated in {:.3f} s\n", timed.seconds);
    return;
  }
  FAIL() << "no read to spoil";
}

}  // namespace
}  // namespace refract::linearizability
