// SPDX-License-Identifier: Apache-2.0
// Transfers of objects between two nodes' ends by the machine's devices: every byte comes by messages and by
// READs, in as many of each as can be counted; a window ends with its transfer; and nothing
// lands in the room of a pull whose holder has gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/verbs/two_ends.h"

#include "refract/base/units.h"
#include "refract/fabric/await.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/owner/service/domain_windows.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/object/testing/quiet_elsewhere.h"
#include "refract/object/testing/test_store.h"
#include "refract/object/transfer/object_transfer.h"
#include "refract/object/transfer/transfer_giver.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"

namespace refract::object {
namespace {

using fabric::verbs::TwoEnds;
using fabric::verbs::Wakeful;
using wire::TransferBy;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

// The holder knows who asks, and nothing else of other nodes.
class EveryoneIsANode final : public test::QuietElsewhere {
 public:
  [[nodiscard]] bool is_node(rpc::SessionId /*session*/) const noexcept override { return true; }
};

// What the holder's device serves: goes with the server.
struct Holder {
  Holder(fabric::Domain& domain, runtime::Shard& shard, test::StoreWorld& world, Elsewhere& elsewhere)
      : windows(domain),
        giver({.store = world.store(),
               .writer = world.writer(),
               .pins = pins,
               .shard = shard,
               .elsewhere = elsewhere,
               .windows = &windows,
               .has_let_go = {}}),
        server(giver, shard),
        dispatcher(domain, shard, &server) {
    giver.answer_through(&server);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { giver.answer_through(nullptr); }

  kv::SessionPins pins;
  kv::DomainWindows windows;
  TransferGiver giver;
  rpc::Server server;
  fabric::Dispatcher dispatcher;
};

class VerbsTransfer : public testing::Test {
 protected:
  void SetUp() override {
    holder_ = std::make_unique<Holder>(ends_.server(), shard_, world_, elsewhere_);
    const Reported<fabric::Channel*> channel = ends_.client().connect(ends_.node().address());
    ASSERT_TRUE(channel.has_value()) << channel.error().to_string();
    channel_ = *channel;
    session_ = std::make_unique<rpc::Session>(**channel, shard_);
    ASSERT_TRUE(run_until([this] { return session_->state() == rpc::Session::State::kOpen; }))
        << ends_.client().last_refusal().to_string();
  }
  void TearDown() override { shard_.drop_tasks(); }

  template <typename Done>
  [[nodiscard]] bool run_until(Done&& done) {
    return shard_.run_until(std::forward<Done>(done), shard_.refresh_now() + kPatience_ns);
  }
  // Each of its bytes says where it belongs.
  void make(const std::string& id, uint64_t bytes) {
    const Result<Creation> made = world_.create(id, kBirth, bytes);
    ASSERT_TRUE(made.has_value()) << bytes;
    const std::string body = pattern(bytes);
    if (bytes > 0) {
      world_.writer().copy({made->object.value + ObjectParts::body_at()}, std::as_bytes(std::span(body)));
    }
    ASSERT_TRUE(world_.store().seal(test::id_of(id), kBirth).has_value());
  }
  [[nodiscard]] static std::string pattern(uint64_t bytes) {
    std::string text(bytes, '\0');
    for (uint64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 131 + (i >> 12) * 7 + 1);
    return text;
  }
  void begin(const std::string& id, uint64_t bytes, TransferWish wish, bool is_checked = false) {
    room_.assign(filled(bytes) + kMargin, kUntouched);
    writer_ = std::make_unique<Writer>(room_.data());
    is_over_ = false;
    shard_.spawn(pull(id, bytes, wish, is_checked));
  }
  [[nodiscard]] static uint64_t filled(uint64_t bytes) {
    return ObjectParts{.body_bytes = bytes, .metadata_bytes = 0, .id_bytes = 0}.filled_bytes();
  }
  runtime::Task<> pull(std::string id, uint64_t bytes, TransferWish wish, bool is_checked) {
    std::vector<TransferSource> sources;
    sources.push_back({.name = "holder", .session = session_.get(), .path = &path_});
    ObjectTransfer transfer(
        shard_,
        {.id = std::as_bytes(std::span(id)),
         .birth = kBirth,
         .parts = {.body_bytes = bytes, .metadata_bytes = 0, .id_bytes = static_cast<uint16_t>(id.size())},
         .writer = *writer_,
         .room = std::span(room_).first(filled(bytes)),
         .wish = wish,
         .is_checked = is_checked},
        std::move(sources));
    outcome_ = co_await transfer.run();
    is_over_ = true;
  }
  [[nodiscard]] bool has_come(uint64_t bytes) const {
    const std::string body = pattern(bytes);
    return std::memcmp(room_.data(), body.data(), bytes) == 0 &&
           std::all_of(room_.begin() + static_cast<std::ptrdiff_t>(filled(bytes)), room_.end(),
                       [](std::byte byte) { return byte == kUntouched; });
  }

  static constexpr uint64_t kBirth = 7;
  static constexpr uint64_t kMargin = 4096;
  static constexpr std::byte kUntouched{0xee};

  const Clock& clock_ = system_clock();
  TwoEnds ends_;
  Wakeful idler_{ends_};
  runtime::Shard shard_{clock_, {.idler = &idler_}};
  test::StoreWorld world_{{.chunks = 48, .chunks_max = 64, .limit = 40 * kMiB}};
  EveryoneIsANode elsewhere_;
  std::unique_ptr<Holder> holder_;
  fabric::Dispatcher dispatcher_{ends_.client(), shard_};
  fabric::Channel* channel_ = nullptr;
  std::unique_ptr<rpc::Session> session_;
  PathMemory path_;
  std::vector<std::byte> room_;
  std::unique_ptr<Writer> writer_;
  TransferOutcome outcome_;
  bool is_over_ = false;
};

// Of both sides of a message, of a page, of what one READ brings.
constexpr uint64_t kLengths[] = {1,      4'095,  4'096, 4'097,    8'000,       8'192,
                                 32'767, 65'537, kMiB,  kMiB + 1, 3 * kMiB + 5};

TEST_F(VerbsTransfer, brings_all_bytes_by_either_way_in_as_many_requests_as_can_be_counted) {
  EXPECT_TRUE(channel_->capabilities().peer_reads_bypass_cpu);
  const uint64_t answer_bytes = session_->payload_bytes_max();
  const uint64_t first_bytes = answer_bytes - sizeof(wire::TransferReply);
  for (const uint64_t bytes : kLengths) {
    const std::string id = "object of " + std::to_string(bytes);
    make(id, bytes);
    const uint64_t all = filled(bytes);
    for (const TransferWish wish : {TransferWish::kSend, TransferWish::kRead}) {
      const bool by_reads = wish == TransferWish::kRead;
      const TransferGiver::Counts before = holder_->giver.counts();
      begin(id, bytes, wish);
      ASSERT_TRUE(run_until([this] { return is_over_; })) << bytes;
      ASSERT_EQ(outcome_.code, Code::kOk) << bytes;
      EXPECT_TRUE(has_come(bytes)) << bytes;
      const TransferShare& share = outcome_.shares.at(0);
      EXPECT_EQ(share.by, by_reads ? TransferBy::kReads : TransferBy::kMessages);
      EXPECT_EQ(share.reads, by_reads ? (all + kMiB - 1) / kMiB : 0) << bytes;
      // TRANSFER; then what it has not brought, and DONE.
      const uint64_t more = all > first_bytes ? (all - first_bytes + answer_bytes - 1) / answer_bytes : 0;
      EXPECT_EQ(share.calls, by_reads ? 2 : 1 + more + (more > 0 ? 1 : 0)) << bytes;
      // DONE is not awaited.
      ASSERT_TRUE(run_until([this] { return holder_->giver.counts().open == 0; }));
      const TransferGiver::Counts after = holder_->giver.counts();
      EXPECT_EQ(after.windows - before.windows, by_reads ? 1 : 0);
      // The bytes of READs were no work of the holder's.
      EXPECT_EQ(after.message_bytes - before.message_bytes, by_reads ? 0 : all);
      EXPECT_EQ(holder_->pins.count(), 0U);
      EXPECT_EQ(holder_->windows.open_count(), 0U);
    }
  }
}

TEST_F(VerbsTransfer, that_is_checked_compares_what_came) {
  constexpr uint64_t kBytes = 2 * kMiB + 77;
  make("checked", kBytes);
  for (const TransferWish wish : {TransferWish::kSend, TransferWish::kRead}) {
    begin("checked", kBytes, wish, /*is_checked=*/true);
    ASSERT_TRUE(run_until([this] { return is_over_; }));
    EXPECT_EQ(outcome_.code, Code::kOk);
    EXPECT_TRUE(has_come(kBytes));
  }
  EXPECT_GT(holder_->giver.counts().digests, 2U);
}

// The server's process dies while READs and messages are under way: what was asked ends, and the room may be
// another object's from then on.
TEST_F(VerbsTransfer, ends_when_the_holder_dies_and_nothing_lands_afterwards) {
  constexpr uint64_t kBytes = 16 * kMiB;
  make("large", kBytes);
  begin("large", kBytes, TransferWish::kRead);
  // The first of sixteen READs has come, of which half are posted at first.
  ASSERT_TRUE(run_until([this] { return room_[0] != kUntouched; }));
  EXPECT_FALSE(is_over_);
  holder_.reset();
  ends_.kill_server();
  ASSERT_TRUE(run_until([this] { return is_over_; }));
  EXPECT_NE(outcome_.code, Code::kOk);
  const std::vector<std::byte> then = room_;
  const uint64_t end_ns = shard_.refresh_now() + 200 * kMillisecond_ns;
  (void)shard_.run_until([this, end_ns] { return shard_.refresh_now() > end_ns; }, end_ns + kSecond_ns);
  EXPECT_TRUE(room_ == then);
}

}  // namespace
}  // namespace refract::object
