// SPDX-License-Identifier: Apache-2.0
// What every published design promises (design.h), over the loopback provider and over the simulated network.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/designs/test_sim_store.h"
#include "refract/kv/designs/test_store.h"

namespace refract::kv::designs {
namespace {

using test::bytes_of;
using test::patterned;

constexpr Capacity kCapacity = {
    .keys_max = 400, .key_bytes_max = 200, .value_bytes_max = 3000, .spare_values = 40};

// The same calls over either provider.
class AnyStore {
 public:
  AnyStore() = default;
  AnyStore(const AnyStore&) = delete;
  AnyStore& operator=(const AnyStore&) = delete;
  virtual ~AnyStore() = default;
  [[nodiscard]] virtual std::pair<Code, std::string> get(std::string_view key) = 0;
  [[nodiscard]] virtual Code get_into(std::string_view key, ValueSink& sink) = 0;
  [[nodiscard]] virtual Code put(std::string_view key, std::string_view value) = 0;
  [[nodiscard]] virtual Code erase(std::string_view key) = 0;
  [[nodiscard]] virtual Code settle() = 0;
  [[nodiscard]] virtual Server& server() = 0;
};

template <typename Store>
class StoreOf final : public AnyStore {
 public:
  template <typename... Arguments>
  explicit StoreOf(Arguments&&... arguments) : store_(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] std::pair<Code, std::string> get(std::string_view key) override {
    const auto read = store_.get(key);
    return {read.code, read.value};
  }
  [[nodiscard]] Code get_into(std::string_view key, ValueSink& sink) override {
    return runtime::block_on(store_.shard(), store_.client().get(bytes_of(key), sink, 0)).code();
  }
  [[nodiscard]] Code put(std::string_view key, std::string_view value) override {
    return store_.put(key, value);
  }
  [[nodiscard]] Code erase(std::string_view key) override { return store_.erase(key); }
  [[nodiscard]] Code settle() override { return store_.settle(); }
  [[nodiscard]] Server& server() override { return store_.server(); }

 private:
  Store store_;
};

struct Row {
  const Design* design;
  bool is_sim;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.design->name;
}

class DesignConformance : public testing::TestWithParam<Row> {
 protected:
  [[nodiscard]] static std::unique_ptr<AnyStore> make(const Capacity& capacity) {
    const Design& design = *GetParam().design;
    if (GetParam().is_sim) return std::make_unique<StoreOf<SimStore>>(design, capacity, uint64_t{5});
    return std::make_unique<StoreOf<LoopbackStore>>(design, capacity);
  }
  void expect_sound(uint64_t keys) {
    EXPECT_EQ(store_->settle(), Code::kOk);
    EXPECT_EQ(store_->server().contradiction(), std::nullopt);
    const Server::Facts facts = store_->server().facts();
    EXPECT_EQ(facts.keys, keys);
    EXPECT_EQ(facts.free_buffers + facts.used_buffers, facts.buffers);
  }
  std::unique_ptr<AnyStore> store_ = make(kCapacity);
};

TEST_P(DesignConformance, values_of_every_length_come_back_as_they_were_put) {
  for (size_t length = 0; length <= kCapacity.value_bytes_max; length += length < 140 ? 1 : 97) {
    const std::string value = patterned(length, length);
    ASSERT_EQ(store_->put("key", value), Code::kOk) << length;
    const auto [code, got] = store_->get("key");
    ASSERT_EQ(code, Code::kOk) << length;
    ASSERT_TRUE(got == value) << length;
  }
  EXPECT_EQ(store_->put("key", patterned(kCapacity.value_bytes_max)), Code::kOk);
  EXPECT_EQ(store_->put("key", patterned(kCapacity.value_bytes_max + 1)), Code::kTooLarge);
  EXPECT_EQ(store_->get("key").second, patterned(kCapacity.value_bytes_max));
  expect_sound(1);
}

TEST_P(DesignConformance, keys_of_every_length_are_accepted_and_kept_apart) {
  for (size_t length = 1; length <= kCapacity.key_bytes_max; ++length) {
    ASSERT_EQ(store_->put(patterned(length), std::to_string(length)), Code::kOk) << length;
  }
  for (size_t length = 1; length <= kCapacity.key_bytes_max; ++length) {
    ASSERT_EQ(store_->get(patterned(length)).second, std::to_string(length));
    ASSERT_EQ(store_->get(patterned(length, 1)).first, Code::kNotFound);
  }
  expect_sound(kCapacity.key_bytes_max);
  for (size_t length = 1; length <= kCapacity.key_bytes_max; ++length) {
    ASSERT_EQ(store_->get(patterned(length)).first, Code::kOk) << "others were erased, not this one";
    ASSERT_EQ(store_->erase(patterned(length)), Code::kOk);
    ASSERT_EQ(store_->get(patterned(length)).first, Code::kNotFound);
    ASSERT_EQ(store_->erase(patterned(length)), Code::kNotFound);
  }
  EXPECT_EQ(store_->put("", "value"), Code::kInvalidArgument);
  EXPECT_EQ(store_->put(patterned(kCapacity.key_bytes_max + 1), "value"), Code::kTooLarge);
  expect_sound(0);
}

TEST_P(DesignConformance, a_sink_that_refuses_ends_the_get_with_too_large) {
  class Refusing final : public ValueSink {
   public:
    std::byte* room(uint64_t) override { return nullptr; }
  } refusing;
  ASSERT_EQ(store_->put("key", "value"), Code::kOk);
  EXPECT_EQ(store_->get_into("key", refusing), Code::kTooLarge);
  EXPECT_EQ(store_->get("key").second, "value");
}

TEST_P(DesignConformance, as_many_keys_as_it_was_made_for_fit) {
  for (uint64_t i = 0; i < kCapacity.keys_max; ++i) {
    ASSERT_EQ(store_->put(std::to_string(i), patterned(kCapacity.value_bytes_max, i)), Code::kOk) << i;
  }
  for (uint64_t i = 0; i < kCapacity.keys_max; ++i) {
    ASSERT_TRUE(store_->get(std::to_string(i)).second == patterned(kCapacity.value_bytes_max, i)) << i;
    // In place of the old one, though everything is full.
    ASSERT_EQ(store_->put(std::to_string(i), patterned(kCapacity.value_bytes_max, i + 1)), Code::kOk) << i;
  }
  expect_sound(kCapacity.keys_max);
}

TEST_P(DesignConformance, a_full_store_says_no_space_and_loses_nothing) {
  std::map<std::string, std::string> model;
  int refused = 0;
  for (uint64_t i = 0; i < 2 * kCapacity.keys_max; ++i) {
    const std::string key = std::to_string(i);
    const std::string value = patterned(kCapacity.value_bytes_max, i);
    const Code code = store_->put(key, value);
    if (code == Code::kNoSpace) {
      if (++refused > 20) break;
      continue;
    }
    ASSERT_EQ(code, Code::kOk) << i;
    model[key] = value;
  }
  EXPECT_GT(refused, 0);
  for (const auto& [key, value] : model) ASSERT_TRUE(store_->get(key).second == value) << key;
  expect_sound(model.size());
  // What is erased makes room again.
  const std::string first = model.begin()->first;
  ASSERT_EQ(store_->erase(first), Code::kOk);
  ASSERT_EQ(store_->settle(), Code::kOk);
  EXPECT_EQ(store_->put(first, patterned(kCapacity.value_bytes_max)), Code::kOk);
}

TEST_P(DesignConformance, random_operations_agree_with_a_model) {
  std::map<std::string, std::string> model;
  Prng prng(11);
  for (int step = 0; step < 6'000; ++step) {
    const std::string key = "key" + std::to_string(prng.below(60));
    const auto entry = model.find(key);
    switch (prng.below(4)) {
      case 0: {
        const std::string value = patterned(prng.below(prng.below(10) == 0 ? 3'000 : 200), prng.next());
        ASSERT_EQ(store_->put(key, value), Code::kOk);
        model[key] = value;
        break;
      }
      case 1:
        ASSERT_EQ(store_->erase(key), entry == model.end() ? Code::kNotFound : Code::kOk);
        model.erase(key);
        break;
      default: {
        const auto [code, value] = store_->get(key);
        ASSERT_EQ(code, entry == model.end() ? Code::kNotFound : Code::kOk);
        if (entry != model.end()) {
          ASSERT_TRUE(value == entry->second);
        }
      }
    }
    if (step % 100 == 0) store_->server().keep_house();
  }
  expect_sound(model.size());
}

TEST_P(DesignConformance, an_index_that_grows_keeps_every_key) {
  store_ = make({.keys_max = 400, .keys_at_start = 10, .key_bytes_max = 20, .value_bytes_max = 100});
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(store_->put(std::to_string(i), std::to_string(i * 3)), Code::kOk) << i;
    for (int j = 0; j <= i; j += 37) ASSERT_EQ(store_->get(std::to_string(j)).second, std::to_string(j * 3));
  }
  ASSERT_EQ(store_->get("absent").first, Code::kNotFound);
  expect_sound(400);
}

std::vector<Row> rows() {
  std::vector<Row> rows;
  for (const Design& design : all()) {
    rows.push_back({.design = &design, .is_sim = false});
    rows.push_back({.design = &design, .is_sim = true});
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(All, DesignConformance, testing::ValuesIn(rows()), [](const auto& row) {
  return std::string(row.param.design->name) + (row.param.is_sim ? "_sim" : "_loopback");
});

TEST(Designs, each_is_found_by_its_name) {
  for (const Design& design : all()) {
    EXPECT_EQ(find(design.name), &design);
    EXPECT_FALSE(design.paper.empty());
  }
  EXPECT_EQ(find("none"), nullptr);
}

}  // namespace
}  // namespace refract::kv::designs
