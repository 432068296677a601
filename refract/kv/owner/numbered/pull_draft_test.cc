// SPDX-License-Identifier: Apache-2.0
// Values that the owner READs into a draft, which a numbered write commits: what that costs, and that what
// ends early, or is another connection's, leaves nothing behind and changes nothing. On the simulator.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "refract/kv/calls/lender.h"
#include "refract/kv/layout/pull_wire.h"
#include "refract/kv/testing/test_numbered_calls.h"
#include "refract/kv/testing/test_service.h"
#include "refract/kv/testing/test_sim_service.h"

namespace refract::kv {
namespace {

using runtime::Task;
using test::bytes_of;
using test::NumberedAnswer;
using test::NumberedOp;
using test::patterned;
using wire::NumberedMethod;
using wire::Operation;

constexpr uint64_t kPiece = PullFetcher::kPieceBytes;

sim::WorldOptions quiet(uint32_t one_sided_bytes_min = 0) {
  sim::WorldOptions options{.seed = 7, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_bytes_min = one_sided_bytes_min;
  return options;
}

NumberedOp commit_op(uint64_t number, uint64_t draft, uint64_t expires_wall_ns = 0) {
  return test::numbered_op(wire::OperationKind::kCommit, number, "",
                           expires_wall_ns == 0 ? "" : test::body_of(expires_wall_ns))
      .flagged(0, draft);
}

// A client on a host of its own, with a session or not yet.
struct Drafter {
  Drafter(sim::World& of, std::string_view name, bool begins = true)
      : world(of), host(of.add_host(name)), dispatcher(host.domain(), host.shard()), lender(host.domain()) {
    const Reported<fabric::Channel*> channel = host.domain().connect("server");
    REFRACT_CHECK(channel.has_value());
    session = std::make_unique<rpc::Session>(**channel, host.shard());
    REFRACT_CHECK(world.run_until([&] { return session->state() == rpc::Session::State::kOpen; }));
    lend(true);
    if (!begins) return;
    const runtime::OpResult begun = call(NumberedMethod::kSessionBegin, "");
    REFRACT_CHECK(begun.code == Code::kOk);
    name_ = test::reply_as<wire::SessionReply>(test::text_of(begun.bytes));
  }
  // Whether the owner may READ what it drafts.
  void lend(bool lends) {
    client = nullptr;
    client = std::make_unique<RpcClient>(*session, host.shard(),
                                         RpcClientOptions{.lender = lends ? &lender : nullptr});
  }
  template <typename T>
  [[nodiscard]] T wait(Task<T> task) {
    return runtime::block_on(host.shard(), std::move(task));
  }
  runtime::OpResult call(NumberedMethod method, std::string_view body) {
    return wait(session->call({.method = static_cast<uint16_t>(method), .head = bytes_of(body)},
                              host.shard().now_ns() + kSecond_ns));
  }
  [[nodiscard]] NumberedAnswer one(const NumberedOp& operation) {
    return test::numbered_reply(call(NumberedMethod::kOperations, test::operations_body({operation}))).one();
  }
  [[nodiscard]] Result<uint64_t> draft(std::string_view key, std::string_view value,
                                       const RpcPutOptions& options = {}, uint64_t deadline_ns = 0) {
    return wait(client->draft(bytes_of(key), bytes_of(value), options, deadline_ns));
  }
  // By hand.
  [[nodiscard]] Code pull(std::string_view key, const wire::PutPulledRequest& request) {
    wire::PutPulledRequest fixed = request;
    fixed.key.key_bytes = static_cast<uint16_t>(key.size());
    return call(NumberedMethod::kPullDraft, test::body_of(fixed, key)).code;
  }
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    StringSink sink(value);
    return wait(client->get(bytes_of(key), sink)) ? value : "";
  }
  [[nodiscard]] const wire::SessionReply& name() const noexcept { return name_; }

  sim::World& world;
  sim::Host& host;
  fabric::Dispatcher dispatcher;
  Lender lender;
  std::unique_ptr<rpc::Session> session;
  std::unique_ptr<RpcClient> client;

 private:
  wire::SessionReply name_{};
};

class PullDraft : public testing::Test {
 protected:
  [[nodiscard]] const PullFetcher::Counts& pulls() { return node.process->service.pulls().counts(); }
  [[nodiscard]] uint64_t uploads() { return node.process->service.stat().uploads; }
  [[nodiscard]] uint64_t buffers_live() { return node.process->heap.stats().buffers_live; }
  void expect_nothing_is_left(uint64_t buffers) {
    ASSERT_TRUE(world.run_for(100 * kMillisecond_ns));
    EXPECT_EQ(uploads(), 0u);
    EXPECT_EQ(node.process->service.stat().upload_bytes, 0u);
    EXPECT_EQ(node.process->service.pulls().bytes_under_way(), 0u);
    EXPECT_EQ(buffers_live(), buffers);
    EXPECT_EQ(drafter.lender.loans(), 0u);
    EXPECT_FALSE(node.process->table.validate().has_value());
  }

  sim::World world{quiet()};
  test::SimNode node{world, 64};
  Drafter drafter{world, "client"};
};

TEST_F(PullDraft, is_read_by_the_owner_and_committed_once_under_its_number) {
  const std::string value = patterned(4 * kPiece - 100);
  const Result<uint64_t> draft = drafter.draft("key", value);
  ASSERT_TRUE(draft) << text(draft.code());
  EXPECT_EQ(pulls().reads, 4u);
  EXPECT_EQ(drafter.lender.loans(), 0u) << "the owner READs nothing more";
  EXPECT_EQ(drafter.get("key"), "") << "nothing is put before it is committed";
  const NumberedAnswer made = drafter.one(commit_op(1, *draft));
  EXPECT_EQ(made.code, Code::kOk);
  EXPECT_TRUE(drafter.get("key") == value);
  EXPECT_EQ(uploads(), 0u);
  const Result<uint64_t> again = drafter.draft("key", patterned(kPiece, 3));
  ASSERT_TRUE(again);
  EXPECT_TRUE(drafter.one(commit_op(1, *again)).is_told_again());
  EXPECT_EQ(uploads(), 0u) << "what is known needs no draft";
  EXPECT_TRUE(drafter.get("key") == value);
}

TEST_F(PullDraft, compares_conditions_and_takes_its_expiry_when_it_is_committed) {
  const std::string value = patterned(100'000);
  const Result<uint64_t> first = drafter.draft("key", value);
  ASSERT_TRUE(first);
  ASSERT_EQ(drafter.one(test::put_op(1, "key", "in between")).code, Code::kOk);
  EXPECT_EQ(drafter.one(commit_op(2, *first).flagged(Operation::kIfAbsent, *first)).code, Code::kExists);
  EXPECT_EQ(uploads(), 0u);
  const uint64_t now_ns = node.host.clock().wall_ns();
  const Result<uint64_t> second = drafter.draft("key", value, {.ttl_ns = kSecond_ns});
  ASSERT_TRUE(second);
  EXPECT_EQ(drafter.one(commit_op(3, *second, now_ns + 3'600 * kSecond_ns)).code, Code::kOk);
  const auto got = drafter.wait(drafter.client->exists(bytes_of("key")));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->expires_wall_ns, now_ns + 3'600 * kSecond_ns);
}

TEST_F(PullDraft, of_a_long_key_is_committed_under_it) {
  const std::string key = patterned(40'000, 3);
  const std::string value = patterned(70'000);
  const Result<uint64_t> draft = drafter.draft(key, value);
  ASSERT_TRUE(draft);
  EXPECT_EQ(pulls().values, 1u);
  ASSERT_EQ(drafter.one(commit_op(1, *draft)).code, Code::kOk);
  EXPECT_TRUE(drafter.get(key) == value);
}

TEST_F(PullDraft, ends_with_its_connection_and_is_no_others) {
  const uint64_t buffers = buffers_live();
  const Result<uint64_t> draft = drafter.draft("key", patterned(kPiece));
  ASSERT_TRUE(draft);
  Drafter other(world, "other", false);
  EXPECT_EQ(other.one(commit_op(0, *draft)).code, Code::kInvalidated);
  EXPECT_EQ(uploads(), 1u);
  // The session is the other one's from now on, and its draft is not.
  const wire::SessionRequest taken{.id = drafter.name().id, .secret = drafter.name().secret};
  ASSERT_EQ(other.call(NumberedMethod::kSessionResume, test::body_of(taken)).code, Code::kOk);
  ASSERT_TRUE(world.run_until([&] { return uploads() == 0; }));
  EXPECT_EQ(other.one(commit_op(2, *draft)).code, Code::kInvalidated);
  EXPECT_EQ(other.get("key"), "");
  expect_nothing_is_left(buffers);
}

TEST_F(PullDraft, that_is_dropped_between_its_reads_is_given_back) {
  const uint64_t buffers = buffers_live();
  {
    const std::string value = patterned(20 * kPiece);
    Task<Result<uint64_t>> task = drafter.client->draft(bytes_of("key"), bytes_of(value));
    task.start();
    ASSERT_TRUE(world.run_until([&] { return pulls().reads > 0; }));
    task = {};
    EXPECT_EQ(drafter.lender.counts().revoked, 1u);
  }
  expect_nothing_is_left(buffers);
}

// Its bytes are there, and nothing waits for the answer any more.
TEST_F(PullDraft, whose_answer_comes_late_is_given_back) {
  const uint64_t buffers = buffers_live();
  {
    const std::string value = patterned(2 * kPiece);
    Task<Result<uint64_t>> task = drafter.client->draft(bytes_of("key"), bytes_of(value));
    task.start();
    ASSERT_TRUE(world.run_until([&] { return pulls().values > 0; }));
    ASSERT_FALSE(task.done());
    task = {};
  }
  EXPECT_EQ(uploads(), 1u);
  expect_nothing_is_left(buffers);
}

TEST_F(PullDraft, has_its_place_among_the_uploads_of_its_connection) {
  const uint64_t buffers = buffers_live();
  std::vector<uint64_t> drafts;
  for (size_t i = 0; i < wire::kUploadsPerSession; ++i) {
    const Result<uint64_t> draft = drafter.draft("key", patterned(20'000, i));
    ASSERT_TRUE(draft);
    drafts.push_back(*draft);
  }
  const uint64_t now_ns = world.now_ns();
  EXPECT_EQ(drafter.draft("key", patterned(20'000), {}, now_ns + 20 * kMillisecond_ns).code(),
            Code::kOverloaded);
  drafter.client->abandon(drafts.back());
  const Result<uint64_t> next = drafter.draft("key", patterned(20'000));
  ASSERT_TRUE(next);
  drafts.back() = *next;
  for (const uint64_t draft : drafts) drafter.client->abandon(draft);
  expect_nothing_is_left(buffers);
}

TEST_F(PullDraft, that_makes_no_sense_is_refused_before_anything_is_read) {
  const wire::PutPulledRequest sound{.key = {.key_bytes = 0, .staged = 0, .flags = 0, .value_bytes = 4096},
                                     .if_version = 0,
                                     .ttl_ns = 0,
                                     .address = RemotePointer::at(0xc000, 0).bits,
                                     .address_key = 99,
                                     .timeout_ns = kSecond_ns};
  const uint64_t buffers = buffers_live();
  wire::PutPulledRequest request = sound;
  request.key.flags = wire::KeyRef::kIfAbsent;
  EXPECT_EQ(drafter.pull("key", request), Code::kInvalidArgument);
  request = sound;
  request.if_version = 5;
  EXPECT_EQ(drafter.pull("key", request), Code::kInvalidArgument);
  request = sound;
  request.key.value_bytes = 0;
  EXPECT_EQ(drafter.pull("key", request), Code::kInvalidArgument);
  request = sound;
  request.key.value_bytes = kValueBytesMax + 1;
  EXPECT_EQ(drafter.pull("key", request), Code::kTooLarge);
  EXPECT_EQ(drafter.pull("", sound), Code::kInvalidArgument);
  EXPECT_EQ(drafter.call(NumberedMethod::kPullDraft, "short").code, Code::kMalformed);
  EXPECT_EQ(pulls().reads, 0u);
  EXPECT_EQ(drafter.pull("key", sound), Code::kAccessDenied) << "nothing is lent there";
  expect_nothing_is_left(buffers);
}

// Where it cannot be pulled: in pieces, or through a window.
class BroughtDraft : public testing::TestWithParam<uint32_t> {
 protected:
  BroughtDraft() { drafter.lend(false); }
  [[nodiscard]] uint64_t uploads() { return node.process->service.stat().uploads; }

  sim::World world{quiet(GetParam())};
  test::SimNode node{world, 64};
  Drafter drafter{world, "client"};
};
INSTANTIATE_TEST_SUITE_P(Ways, BroughtDraft, testing::Values(0U, 16U * 1024),
                         [](const auto& way) { return way.param == 0 ? "pieces" : "window"; });

TEST_P(BroughtDraft, is_whole_and_committed_once) {
  uint64_t number = 0;
  for (const size_t bytes : {size_t{17'000}, size_t{kMiB}, size_t{9 * kMiB + 5}}) {
    const std::string value = patterned(bytes, bytes);
    const Result<uint64_t> draft = drafter.draft("key", value);
    ASSERT_TRUE(draft) << text(draft.code());
    ASSERT_EQ(drafter.one(commit_op(++number, *draft)).code, Code::kOk);
    EXPECT_TRUE(drafter.get("key") == value) << bytes;
    EXPECT_EQ(drafter.one(commit_op(++number, *draft)).code, Code::kInvalidated);
  }
  EXPECT_EQ(node.process->service.pulls().counts().reads, 0u);
  EXPECT_EQ(uploads(), 0u);
}

TEST_P(BroughtDraft, that_is_dropped_on_its_way_leaves_nothing) {
  {
    const std::string value = patterned(20 * kMiB);
    Task<Result<uint64_t>> task = drafter.client->draft(bytes_of("key"), bytes_of(value));
    task.start();
    ASSERT_TRUE(world.run_until([&] { return uploads() == 1; }));
    ASSERT_FALSE(task.done());
  }
  ASSERT_TRUE(world.run_for(100 * kMillisecond_ns));
  EXPECT_EQ(uploads(), 0u);
  EXPECT_FALSE(node.process->table.validate().has_value());
}

}  // namespace
}  // namespace refract::kv
