// SPDX-License-Identifier: Apache-2.0
// What a shard's storage does at the start of a server and at the end of a node: on a disk that has
// something, behind a server that died while it filled the memory, without the ring that it needs. A table in
// real memory, real files and rings.
#include "refract/node/durable/shard_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/kv/testing/test_space.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/node/durable/data_folder.h"
#include "refract/node/hosted_kv/hosted_kv.h"

namespace refract::node {
namespace {

using kv::test::bytes_of;
using kv::test::text_of;
using test::needed;
using testing::HasSubstr;

// The table as the first row, without what serves it.
class TableStore final : public HostedStore {
 public:
  TableStore(Writer& writer, Heap& heap)
      : writer_(writer), heap_(heap), table(writer, heap, system_clock()) {}

  [[nodiscard]] Result<> mark_live(const storage::Record* last) override {
    if (last == nullptr) return table.recover();
    const kv::ChangeLog::Change change = change_of(*last);
    return table.recover(&change);
  }
  [[nodiscard]] uint64_t entry_count() const noexcept override { return table.stats().entries; }
  [[nodiscard]] std::unique_ptr<StoreFilling> begin_filling(const Grow& grow) override {
    return std::make_unique<KvFilling>(table, heap_, grow);
  }
  [[nodiscard]] std::unique_ptr<StoreSnapshot> begin_snapshot(
      const StoreSnapshot::Options& options) override {
    return std::make_unique<KvSnapshot>(
        KvSnapshot::Parts{.table = table, .heap = heap_, .writer = writer_, .clock = system_clock()},
        options);
  }
  void serve(std::vector<HostedMethods>& /*methods*/) override {}
  void answer_through(rpc::Server* /*server*/) noexcept override {}
  void add_counters(const observe::AddCounter& /*add*/) const override {}

 private:
  Writer& writer_;
  Heap& heap_;

 public:
  kv::Table table;
};

class Storage : public testing::Test {
 protected:
  Storage() {
    set_log_level(LogLevel::kError);
    config_.data_folder = folder_.path() + "/data";
    config_.durability = Durability::kEverySecond;
    config_.memory_limit_bytes = 64 * kMiB;
    config_.memory_initial_bytes = 16 * kMiB;
    data_.emplace(needed(DataFolder::open(config_)));
    take_new_memory();
  }
  ~Storage() override {
    end_server();
    set_log_level(LogLevel::kInfo);
  }

  void take_new_memory() {
    end_server();
    space_.emplace(needed(StoreSpace::open(plan_key_space(config_, 0, kKvRow.area), data_->origin())));
  }
  void end_server() {
    if (store_) store_->table.log_to(nullptr);
    storage_.reset();
    store_.reset();
    heap_.reset();
  }
  // As the next server of this memory does it.
  [[nodiscard]] Reported<> begin_server() {
    end_server();
    writer_.emplace(space_->addresses().base());
    auto opened = ShardStorage::open({.config = config_,
                                      .disk = data_->disk(),
                                      .log = data_->log_of(0),
                                      .ring = data_->ring_of(0),
                                      .space = *space_,
                                      .writer = *writer_,
                                      .shard = shard_,
                                      .value_of = kKvRow.value_of,
                                      .name = "shard 0: "});
    if (!opened) return report(opened.error());
    storage_ = std::move(*opened);
    heap_.emplace(*writer_, pins_);
    heap_->add({0}, space_->bytes());
    store_.emplace(*writer_, *heap_);
    storage_->host(StoreName::of("kv"), *store_);
    was_new_ = storage_->is_memory_new();
    if (!was_new_) {
      if (auto going = storage_->go_on(*heap_); !going) return going;
    }
    const auto last = was_new_ ? std::nullopt : storage_->last_record();
    EXPECT_TRUE(store_->mark_live(last ? &*last : nullptr));
    if (was_new_) {
      const auto no_growth = [](uint64_t) { return false; };
      if (auto filled = storage_->fill(*heap_, {.now = no_growth, .ahead = {}}); !filled) return filled;
    }
    store_->table.log_to(storage_.get());
    return {};
  }
  // The node ends: what the ring has goes to the disk.
  [[nodiscard]] Reported<> end_node() {
    end_server();
    return settle_log({.config = config_,
                       .disk = data_->disk(),
                       .log = data_->log_of(0),
                       .ring = data_->ring_of(0),
                       .space = space_->addresses().base(),
                       .value_of = kKvRow.value_of});
  }
  // As a keeper that finds none where one was in use.
  void lose_ring() {
    needed(storage::Ring::open(data_->ring_of(0))).empty();
    ASSERT_TRUE(data_->ring_of(0).say_lost());
  }
  uint64_t put(const std::string& key, const std::string& value) {
    return needed(store_->table.put(bytes_of(key), bytes_of(value), {}));
  }
  [[nodiscard]] std::optional<kv::Table::Entry> find(const std::string& key) {
    const auto found = store_->table.find(bytes_of(key));
    return found ? std::optional(*found) : std::nullopt;
  }

  test::Folder folder_;
  NodeConfig config_;
  std::optional<DataFolder> data_;
  std::optional<StoreSpace> space_;
  std::optional<Writer> writer_;
  runtime::Shard shard_{system_clock()};
  kv::test::NoPins pins_;
  std::optional<Heap> heap_;
  std::optional<TableStore> store_;
  std::unique_ptr<ShardStorage> storage_;
  bool was_new_ = false;
};

TEST_F(Storage, what_the_node_had_is_in_new_memory_with_the_versions_that_it_had) {
  ASSERT_TRUE(begin_server());
  EXPECT_TRUE(was_new_);
  EXPECT_EQ(space_->fill_state(), kFillComplete);
  const uint64_t version = put("small", "a value");
  const std::string large(100'000, 'x');
  put("large", large);
  ASSERT_TRUE(end_node());
  take_new_memory();
  ASSERT_TRUE(begin_server());
  EXPECT_TRUE(was_new_);
  EXPECT_EQ(storage_->reading().records, 2U);
  EXPECT_EQ(needed(find("small")).version, version);
  EXPECT_EQ(text_of(needed(find("large")).value), large) << "its value lay in the memory, not in the ring";
  EXPECT_GT(put("later", ""), version + (uint64_t{1} << 31)) << "far above what a crash may have lost";
}

TEST_F(Storage, the_next_server_of_the_same_memory_reads_nothing_and_knows_the_last_change) {
  ASSERT_TRUE(begin_server());
  put("first", "1");
  const uint64_t version = put("last", "2");
  ASSERT_TRUE(begin_server());
  EXPECT_FALSE(was_new_);
  const storage::Record last = needed(storage_->last_record());
  EXPECT_EQ(last.stamp, version);
  EXPECT_EQ(needed(find("last")).version, version);
  EXPECT_GT(put("first", "3"), version);
}

TEST_F(Storage, memory_whose_server_died_while_it_was_filled_is_emptied_and_filled_again) {
  ASSERT_TRUE(begin_server());
  put("key", "value");
  ASSERT_TRUE(end_node());
  take_new_memory();
  ASSERT_TRUE(begin_server());
  store_->table.log_to(nullptr);
  put("of no log", "half filled");
  writer_->publish(Offset{offsetof(SpaceHeader, fill_state)}, kFillBegun);
  ASSERT_TRUE(begin_server());
  EXPECT_TRUE(was_new_);
  EXPECT_TRUE(find("key"));
  EXPECT_FALSE(find("of no log"));
}

TEST_F(Storage, a_change_of_a_store_that_is_not_hosted_is_refused_by_name_and_nothing_is_served) {
  ASSERT_TRUE(begin_server());
  const std::string key = "k";
  ASSERT_EQ(storage_->room_for(1, 0), Code::kOk);
  storage_->append_hosted(
      {.store = StoreName::of("graph"), .stamp = heap_->next_stamp(), .key = bytes_of(key)});
  ASSERT_TRUE(end_node());
  take_new_memory();
  const auto begun = begin_server();
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Code::kUnsupported);
  EXPECT_THAT(begun.error().what, HasSubstr("\"graph\""));
  EXPECT_EQ(space_->fill_state(), kFillBegun) << "the next server begins from nothing";
}

TEST_F(Storage, without_its_ring_the_memory_that_has_everything_serves_reads_alone) {
  ASSERT_TRUE(begin_server());
  put("key", "value");
  ASSERT_TRUE(end_node());
  lose_ring();
  ASSERT_TRUE(begin_server());
  EXPECT_TRUE(find("key"));
  EXPECT_EQ(storage_->room_for(1, 1), Code::kReadOnly);
  EXPECT_EQ(storage_->failure(), Code::kIndeterminate);
}

TEST_F(Storage, without_its_ring_new_memory_is_refused_and_not_filled) {
  ASSERT_TRUE(begin_server());
  put("key", "value");
  ASSERT_TRUE(end_node());
  lose_ring();
  take_new_memory();
  const auto begun = begin_server();
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Code::kCorrupt);
  EXPECT_THAT(begun.error().what, HasSubstr("acknowledged"));
  EXPECT_THAT(begun.error().next, HasSubstr("refract check"));
  EXPECT_EQ(store_->entry_count(), 0U);
}

TEST_F(Storage, a_full_ring_says_later_and_no_change_is_acknowledged_before_it_is_confirmed) {
  ASSERT_TRUE(begin_server());
  const std::string value(16 * kKiB, 'v');
  int changes = 0;
  while (storage_->room_for(1, value.size()) == Code::kOk) {
    ASSERT_LT(++changes, 100'000) << "a ring is bounded";
    storage_->append_hosted({.store = StoreName::of("graph"),
                             .stamp = heap_->next_stamp(),
                             .key = bytes_of("k"),
                             .value = bytes_of(value)});
  }
  EXPECT_GT(changes, 1);
  EXPECT_EQ(storage_->room_for(1, value.size()), Code::kOverloaded);
  EXPECT_EQ(storage_->failure(), Code::kOk) << "it gets on once its thread runs";
}

TEST_F(Storage, a_disk_with_more_than_the_memory_takes_is_refused_with_advice) {
  ASSERT_TRUE(begin_server());
  for (int i = 0; i < 5; ++i) put(std::to_string(i), std::string(kMiB, 'x'));
  ASSERT_TRUE(end_node());
  config_.memory_initial_bytes = 8 * kMiB;
  take_new_memory();
  const auto begun = begin_server();
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Code::kNoSpace);
  EXPECT_THAT(begun.error().next, HasSubstr("--memory-limit"));
}

}  // namespace
}  // namespace refract::node
