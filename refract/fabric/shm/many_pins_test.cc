// SPDX-License-Identifier: Apache-2.0
// Connections with more than one table of pins, between the two ends' domains.
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "refract/fabric/shm/test_domains.h"

namespace refract::fabric::shm {
namespace {

MeetingOptions with_tables(uint32_t tables) {
  MeetingOptions options;
  options.pin_tables = tables;
  return options;
}

// The end of a node's clients that may hold many; its client is DomainTest's.
class ManyPins : public DomainTest {
 protected:
  ManyPins() : DomainTest(with_tables(kPinTablesMax)) {}

  PinSet collected() {
    PinSet pins;
    node_.server().pins().collect(pins);
    return pins;
  }
  uint64_t bytes_taken() {
    struct stat status{};
    EXPECT_EQ(::fstat(node_.meeting().attachments().at(0).memory_fd, &status), 0);
    return static_cast<uint64_t>(status.st_blocks) * 512;
  }
};

TEST_F(ManyPins, a_client_holds_65536_buffers_and_the_next_server_sees_them_all) {
  WidePins& pins = client_->wide_pins(*open());
  constexpr size_t kMany = 65'536;
  std::vector<int> held;
  for (size_t i = 1; i <= kMany; ++i) held.push_back(pins.pin({64 * i}, i));
  EXPECT_TRUE(std::ranges::none_of(held, [](int index) { return index < 0; }));
  for (int server = 0; server < 2; ++server) {
    const PinSet seen = collected();
    EXPECT_EQ(seen.size(), kMany);
    for (size_t i = 1; i <= kMany; ++i) ASSERT_TRUE(seen.contains({64 * i})) << i;
    if (server > 0) continue;
    node_.kill_server();
    node_.start_server();
  }
  for (const int index : held) pins.unpin(index);
  EXPECT_TRUE(collected().empty());
}

TEST_F(ManyPins, tables_take_memory_as_they_are_used) {
  Channel* channel = open();
  WidePins& pins = client_->wide_pins(*channel);
  EXPECT_EQ(bytes_taken(), kConnectionBytes);
  EXPECT_TRUE(echoes(*channel, 100));
  for (size_t i = 0; i < kPinsMax; ++i) ASSERT_GE(pins.pin({64}, 0), 0);
  EXPECT_EQ(collected().size(), kPinsMax);
  EXPECT_EQ(bytes_taken(), kConnectionBytes) << "one table is enough";
  for (size_t i = 0; i < 2 * kPinsMax; ++i) ASSERT_GE(pins.pin({64}, 0), 0);
  EXPECT_EQ(collected().size(), 3 * kPinsMax);
  EXPECT_EQ(bytes_taken(), connection_bytes(3));
}

TEST_F(ManyPins, what_is_pinned_by_the_first_table_alone_is_one_of_all) {
  Channel* channel = open();
  EXPECT_EQ(client_->pins(*channel).pin({64}, 0), 0);
  EXPECT_EQ(client_->wide_pins(*channel).in_use(), 1U);
  EXPECT_TRUE(collected().contains({64}));
}

// The worst that a client can say: all tables, each full of what it likes.
TEST_F(ManyPins, a_lying_client_has_its_own_tables_looked_at_and_no_more) {
  Channel* channel = open();
  ConnectionMemory& memory = memory_of(0);
  for (const uint64_t lie : {uint64_t{kPinTablesMax}, uint64_t{kPinTablesMax + 1}, ~uint64_t{0}}) {
    publish_u64(&memory.client.pin_tables, lie);
    EXPECT_TRUE(collected().empty());
  }
  EXPECT_EQ(bytes_taken(), connection_bytes(kPinTablesMax)) << "which is what it costs";
  PinTable* further = further_pins(memory);
  for (size_t table = 0; table + 1 < kPinTablesMax; ++table) {
    std::fill_n(reinterpret_cast<uint64_t*>(&further[table]), sizeof(PinTable) / 8, ~uint64_t{0});
  }
  EXPECT_EQ(collected().size(), (kPinTablesMax - 1) * kPinsMax);
  EXPECT_TRUE(echoes(*channel, 100));
}

TEST_F(ManyPins, the_pins_of_a_client_that_is_gone_are_gone) {
  WidePins& pins = client_->wide_pins(*open());
  for (size_t i = 0; i < 1'000; ++i) ASSERT_GE(pins.pin({64}, 0), 0);
  client_.reset();
  client_ = make_client();
  client_end_.domain = client_.get();
  EXPECT_TRUE(settle([&] { return node_.server().connections() == 0; }));
  EXPECT_TRUE(collected().empty());
}

class FewPins : public DomainTest {};

// What shards for keys have.
TEST_F(FewPins, without_further_tables_the_first_one_is_all_and_its_word_stays_0) {
  WidePins& pins = client_->wide_pins(*open());
  EXPECT_EQ(pins.pins_max(), kPinsMax);
  for (size_t i = 0; i < kPinsMax; ++i) ASSERT_GE(pins.pin({64}, 0), 0);
  EXPECT_EQ(pins.pin({64}, 0), -1);
  EXPECT_EQ(observe_u64(&memory_of(0).client.pin_tables), 0U);
}

TEST(ManyPinsMeeting, a_number_of_tables_that_no_connection_can_have_is_refused) {
  for (const uint32_t tables : {0U, static_cast<uint32_t>(kPinTablesMax) + 1}) {
    MeetingOptions options = with_tables(tables);
    const MeetingFolder directory;
    options.path = directory.socket();
    const auto opened = Meeting::open(std::move(options));
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace refract::fabric::shm
