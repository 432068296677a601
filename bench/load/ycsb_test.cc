// SPDX-License-Identifier: Apache-2.0
// YCSB's loads: that operations have the shares that their letters stand for, and that "latest" is what it
// says.
#include "bench/load/ycsb.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

#include "bench/kv/kv_load.h"

namespace refract::bench {
namespace {

TEST(InsertedKeys, are_latest_in_the_order_in_which_all_before_them_ended) {
  InsertedKeys inserted({.keys = 100, .client = 3, .room = 10});
  EXPECT_EQ(inserted.latest(0), 99U);
  EXPECT_EQ(inserted.latest(99), 0U);
  std::vector<uint64_t> begun;
  for (int i = 0; i < 4; ++i) begun.push_back(inserted.begin());
  inserted.ended(begun[2]);
  inserted.ended(begun[1]);
  EXPECT_EQ(inserted.latest(0), 99U) << "the first is not there yet";
  inserted.ended(begun[0]);
  EXPECT_EQ(inserted.latest(0), inserted.index_of(begun[2]));
  EXPECT_EQ(inserted.latest(2), inserted.index_of(begun[0]));
  EXPECT_EQ(inserted.latest(3), 99U);
  EXPECT_EQ(inserted.latest(99), 3U);
}

TEST(InsertedKeys, differ_between_clients_and_take_no_more_room_than_they_have) {
  std::set<uint64_t> indexes;
  for (const uint64_t client : {uint64_t{0}, uint64_t{1}, uint64_t{255}}) {
    InsertedKeys inserted({.keys = 50, .client = client, .room = 10});
    for (int i = 0; i < 35; ++i) {
      const uint64_t insert = inserted.begin();
      EXPECT_EQ(inserted.is_repeated(insert), i >= 10);
      indexes.insert(inserted.index_of(insert));
      inserted.ended(insert);
    }
    EXPECT_EQ(inserted.latest(0), inserted.index_of(34));
    EXPECT_EQ(inserted.latest(9), inserted.index_of(25));
    EXPECT_EQ(inserted.latest(10), 49U);
  }
  EXPECT_EQ(indexes.size(), 30U);
  EXPECT_GE(*indexes.begin(), 50U);
}

// Whatever is asked for is answered at once.
std::map<Act, double> shares_of(const Ycsb& load, WorkloadOptions options) {
  constexpr int kCount = 20'000;
  InsertedKeys inserted({.keys = options.keys, .client = 0, .room = options.keys});
  load.apply_to(options);
  options.seconds = 600;
  options.operations = kCount;
  options.inserted = &inserted;
  static const Timer timer = Timer::calibrate();
  Workload workload(options, timer);
  workload.begin();
  std::map<Act, double> shares;
  for (Operation operation; workload.next(operation);) {
    shares[operation.act] += 1.0 / kCount;
    if (operation.act == Act::kScan) {
      EXPECT_GE(operation.number, 1U);
      EXPECT_LE(operation.number, kScanEntriesMax);
    }
    workload.finished(operation, Code::kOk);
  }
  return shares;
}

TEST(Ycsb, loads_have_the_shares_that_their_letters_stand_for) {
  using Shares = std::map<Act, double>;
  const std::map<char, Shares> expected = {{'a', {{Act::kGet, 0.5}, {Act::kPut, 0.5}}},
                                           {'b', {{Act::kGet, 0.95}, {Act::kPut, 0.05}}},
                                           {'c', {{Act::kGet, 1}}},
                                           {'d', {{Act::kGet, 0.95}, {Act::kInsert, 0.05}}},
                                           {'e', {{Act::kScan, 0.95}, {Act::kInsert, 0.05}}},
                                           {'f', {{Act::kGet, 0.5}, {Act::kReplace, 0.5}}}};
  ASSERT_EQ(ycsb_loads().size(), expected.size());
  for (const auto& [letter, shares] : expected) {
    const Ycsb* load = find_ycsb(std::string(1, letter));
    ASSERT_NE(load, nullptr);
    const Shares found = shares_of(*load, {.keys = 5'000, .skew = kYcsbSkew});
    ASSERT_EQ(found.size(), shares.size()) << letter;
    for (const auto& [act, share] : shares) EXPECT_NEAR(found.at(act), share, 0.02) << letter;
  }
  EXPECT_EQ(find_ycsb("g"), nullptr);
  EXPECT_EQ(find_ycsb(""), nullptr);
}

TEST(Ycsb, d_asks_most_for_what_was_inserted_last) {
  InsertedKeys inserted({.keys = 1'000, .client = 0, .room = 1'000});
  for (int i = 0; i < 100; ++i) inserted.ended(inserted.begin());
  WorkloadOptions options{.keys = 1'000, .skew = kYcsbSkew, .seconds = 600, .operations = 10'000};
  find_ycsb("d")->apply_to(options);
  options.inserted = &inserted;
  Workload workload(options, Timer::calibrate());
  workload.begin();
  int newest = 0;
  int gets = 0;
  for (Operation operation; workload.next(operation);) {
    if (!operation.is_get()) continue;  // And never ends, so what is latest stays.
    ++gets;
    newest += operation.index == inserted.index_of(99) ? 1 : 0;
  }
  // Of a Zipf law of 0.99 over 1,000 keys the first has 13 %.
  EXPECT_NEAR(static_cast<double>(newest) / gets, 0.13, 0.03);
}

TEST(Contents, knows_the_entry_of_a_key_again) {
  const Contents contents(9, 8);
  std::array<std::byte, 9> key;
  for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{123'456'789}, ~uint64_t{0} / 3}) {
    contents.write_key(index, key.data());
    EXPECT_EQ(contents.index_of(key.data()), index);
  }
}

TEST(Ycsb, is_refused_where_a_side_cannot_do_it) {
  KvLoad load;
  const auto with = [&load](const char* letter) {
    load.ycsb = find_ycsb(letter);
    load.ycsb->apply_to(load.workload);
    return check(load);
  };
  load.beside = {KvPeer::kRedis};
  EXPECT_TRUE(with("e"));
  load.beside = {KvPeer::kMemcached};
  EXPECT_TRUE(with("f"));
  const Reported<> scanned = with("e");
  ASSERT_FALSE(scanned);
  EXPECT_NE(scanned.error().what.find("memcached cannot be scanned"), std::string::npos);
  load.beside = {};
  load.driver = {.depth = 8, .batch = 4};
  EXPECT_TRUE(with("d"));
  EXPECT_FALSE(with("f"));
  load.driver = {};
  load.designs = {"refract", "pilaf"};
  EXPECT_TRUE(with("a"));
  EXPECT_FALSE(with("d"));
}

}  // namespace
}  // namespace refract::bench
