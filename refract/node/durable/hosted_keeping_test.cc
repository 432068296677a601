// SPDX-License-Identifier: Apache-2.0
// Records and blocks reach the store that wrote them, and no other; what cannot be taken is refused with the
// store's name.
#include "refract/node/durable/hosted_keeping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/base/testing/needed.h"

namespace refract::node::hosted_keeping_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Keeps texts in an order, as many as it has room for.
class Texts final : public HostedStore {
 public:
  [[nodiscard]] Result<> mark_live(const storage::Record* /*last*/) override { return {}; }
  [[nodiscard]] uint64_t entry_count() const noexcept override { return texts.size(); }
  [[nodiscard]] Code replay(const storage::Record& change) override { return restore(change.value); }
  void snapshot(const TakePiece& take) const override {
    for (const std::string& text : texts) take(bytes_of(text));
  }
  [[nodiscard]] Code restore(std::span<const std::byte> piece) override {
    if (piece.empty()) return Code::kMalformed;
    if (texts.size() == room) return Code::kNoSpace;
    texts.emplace_back(reinterpret_cast<const char*>(piece.data()), piece.size());
    return Code::kOk;
  }
  void serve(std::vector<HostedMethods>& /*methods*/) override {}
  void answer_through(rpc::Server* /*server*/) noexcept override {}
  void add_counters(const observe::AddCounter& /*add*/) const override {}

  std::vector<std::string> texts;
  size_t room = 8;
};

class Keeping : public testing::Test {
 protected:
  Keeping() {
    keeping_.add(StoreName::of("one"), one_);
    keeping_.add(StoreName::of("two"), two_);
  }
  [[nodiscard]] Reported<> replay(const char* store, const std::string& text, const Grow& grow) {
    return keeping_.replay({.key = bytes_of(text), .value = bytes_of(text), .store = StoreName::of(store)},
                           grow);
  }

  const Grow no_growth_ = [](uint64_t) { return false; };
  Texts one_;
  Texts two_;
  HostedKeeping keeping_;
};

TEST_F(Keeping, a_record_reaches_its_store_alone) {
  EXPECT_TRUE(replay("two", "change", no_growth_));
  EXPECT_THAT(one_.texts, IsEmpty());
  EXPECT_THAT(two_.texts, ElementsAre("change"));
}

TEST_F(Keeping, what_no_row_has_is_refused_with_a_name_that_cannot_harm_a_terminal) {
  const auto refused = replay("\x1b[31m", "change", no_growth_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().what, HasSubstr("31m"));
  EXPECT_EQ(refused.error().what.find('\x1b'), std::string::npos);
}

TEST_F(Keeping, memory_is_asked_for_until_it_suffices_or_does_not_come) {
  one_.room = 0;
  std::vector<uint64_t> asked;
  const Grow grows = [&](uint64_t bytes) {
    asked.push_back(bytes);
    if (asked.size() == 3) one_.room = 1;
    return true;
  };
  EXPECT_TRUE(replay("one", "abcd", grows));
  EXPECT_THAT(asked, ElementsAre(8, 8, 8)) << "key and value";
  const auto refused = replay("one", "abcd", no_growth_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_THAT(refused.error().next, HasSubstr("--memory-limit"));
  EXPECT_THAT(one_.texts, ElementsAre("abcd"));
}

TEST_F(Keeping, what_a_store_cannot_read_is_damage) {
  const auto refused = replay("one", "", no_growth_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().what, HasSubstr("\"one\" cannot read a change"));
}

TEST_F(Keeping, a_snapshot_has_all_stores_and_is_restored_into_the_same) {
  one_.texts = {"a", "b"};
  two_.texts = {"c"};
  const auto payloads = keeping_.snapshot();
  EXPECT_EQ(payloads.size(), 3U);
  Texts first;
  Texts second;
  HostedKeeping other;
  other.add(StoreName::of("two"), second);
  other.add(StoreName::of("one"), first);
  for (const auto& payload : payloads) EXPECT_TRUE(other.restore(payload, no_growth_));
  EXPECT_THAT(first.texts, ElementsAre("a", "b"));
  EXPECT_THAT(second.texts, ElementsAre("c"));
}

TEST_F(Keeping, a_block_without_room_for_a_name_is_damage) {
  EXPECT_EQ(keeping_.restore(bytes_of("1234567"), no_growth_).error().code, Code::kCorrupt);
  EXPECT_EQ(keeping_.restore({}, no_growth_).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace refract::node::hosted_keeping_test
