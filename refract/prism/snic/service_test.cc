// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/service.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/fabric/dispatcher.h"
#include "refract/prism/client.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic {
namespace {

using test::bytes_of;
using test::Draft;
using test::kRegion;
using test::text_of;

// A service over the loopback provider, in one thread.
class Served {
 public:
  explicit Served(const ServiceOptions& options = {}) : service(world.executor(), shard, options) {
    service.answer_through(&server);
    EXPECT_TRUE(service.offer({.store = "words", .region = kRegion, .rights = {ChainRights::kAll}, .root = 8})
                    .has_value());
    EXPECT_TRUE(
        service.offer({.store = "read only", .region = kRegion, .rights = {ChainRights::kRead}}).has_value());
  }

  [[nodiscard]] std::unique_ptr<rpc::Session> connect() {
    auto session =
        std::make_unique<rpc::Session>(*refract::test::needed(client_domain_.connect("server")), shard);
    while (session->state() != rpc::Session::State::kOpen) (void)shard.poll_once();
    return session;
  }
  void settle() {
    for (int turn = 0; turn < 64; ++turn) (void)shard.poll_once();
  }
  [[nodiscard]] Attachment attach(rpc::Session& session) {
    const auto attached = Client(session).attach_and_wait("words", {ChainRights::kAll}, deadline());
    EXPECT_TRUE(attached.has_value());
    return attached.value_or(Attachment{});
  }
  [[nodiscard]] uint64_t deadline() { return shard.refresh_now() + 10 * kSecond_ns; }

  test::World world;
  runtime::Shard shard{system_clock()};

 private:
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain client_domain_{hub_, "client"};
  fabric::LoopbackDomain server_domain_{hub_, "server"};

 public:
  Service service;
  rpc::Server server{service, shard};

 private:
  fabric::Dispatcher server_dispatcher_{server_domain_, shard, &server};
  fabric::Dispatcher client_dispatcher_{client_domain_, shard};
};

TEST(PrismService, attaching_answers_with_key_region_and_root) {
  Served served;
  const auto session = served.connect();
  const Attachment words = served.attach(*session);
  EXPECT_EQ(words.region, kRegion);
  EXPECT_EQ(words.root, 8u);
  EXPECT_EQ(words.bytes, 4096u);
  EXPECT_NE(words.key.bits, 0u);
  EXPECT_EQ(words.form, ChainForm::kDense);
  EXPECT_EQ(served.attach(*session).key, words.key) << "one key for each session and region";
}

// An executor of another version: it answers each attach and runs nothing.
class Answers final : public rpc::Service {
 public:
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    const AttachReply reply = {.key = 1,
                               .bytes = 4096,
                               .root = 0,
                               .region = kRegion,
                               .rights = ChainRights::kAll,
                               .chain_version = version,
                               .reserved = {}};
    for (const rpc::IncomingCall& call : calls) {
      server->reply(call.from, Code::kOk, std::as_bytes(std::span(&reply, 1)));
    }
  }

  rpc::Server* server = nullptr;
  uint8_t version = 0;
};

TEST(PrismService, chains_go_out_in_the_newest_form_that_both_ends_know) {
  Answers answers;
  runtime::Shard shard{system_clock()};
  fabric::LoopbackHub hub;
  fabric::LoopbackDomain client_domain(hub, "client");
  fabric::LoopbackDomain server_domain(hub, "server");
  rpc::Server server(answers, shard);
  const fabric::Dispatcher server_dispatcher(server_domain, shard, &server);
  const fabric::Dispatcher client_dispatcher(client_domain, shard);
  answers.server = &server;
  rpc::Session session(**client_domain.connect("server"), shard);
  while (session.state() != rpc::Session::State::kOpen) (void)shard.poll_once();
  constexpr std::array<ChainForm, 4> kForms = {ChainForm::kPlain, ChainForm::kPlain, ChainForm::kDense,
                                               ChainForm::kDense};
  for (uint8_t version = 0; version < kForms.size(); ++version) {
    answers.version = version;
    const auto attached =
        Client(session).attach_and_wait("words", {ChainRights::kAll}, shard.refresh_now() + 10 * kSecond_ns);
    ASSERT_TRUE(attached.has_value());
    EXPECT_EQ(attached->form, kForms[version]) << int{version};
  }
}

TEST(PrismService, attaching_to_what_is_not_offered_is_refused) {
  Served served;
  const auto session = served.connect();
  Client client(*session);
  const uint64_t deadline = served.deadline();
  EXPECT_EQ(client.attach_and_wait("nothing", {}, deadline).code(), Code::kNotFound);
  EXPECT_EQ(client.attach_and_wait("read only", {ChainRights::kWrite}, deadline).code(), Code::kAccessDenied);
  EXPECT_EQ(client.attach_and_wait(std::string(100, 'x'), {}, deadline).code(), Code::kNotFound);
  EXPECT_EQ(served.service.offer({.store = "words"}).code(), Code::kExists);
  EXPECT_EQ(served.service.offer({.store = std::string(65, 'x')}).code(), Code::kTooLarge);
  served.service.withdraw("words");
  EXPECT_EQ(client.attach_and_wait("words", {}, deadline).code(), Code::kNotFound);
  EXPECT_EQ(session->call_and_wait({.method = kAttachMethod}, deadline).code, Code::kMalformed);
  EXPECT_EQ(session->call_and_wait({.method = 0x2ff}, deadline).code, Code::kUnsupported);
}

TEST(PrismService, rights_are_those_that_the_session_attached_with) {
  Served served;
  const auto session = served.connect();
  Client client(*session);
  const auto attached = client.attach_and_wait("words", {ChainRights::kRead}, served.deadline());
  ASSERT_TRUE(attached.has_value());
  Draft draft;
  draft->read(attached->at(0), attached->key, 8);
  draft->write(attached->at(0), attached->key, bytes_of("x"));
  const auto reply = client.run_and_wait(*draft, served.deadline());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(0), Code::kOk);
  EXPECT_EQ(reply->code(1), Code::kAccessDenied);
}

TEST(PrismService, key_of_another_session_opens_nothing) {
  Served served;
  const auto mine = served.connect();
  const auto theirs = served.connect();
  const Attachment attached = served.attach(*theirs);
  Draft draft;
  draft->read(attached.at(0), attached.key, 8);
  draft->write(attached.at(0), attached.key, bytes_of("stolen"));
  const auto reply = Client(*mine).run_and_wait(*draft, served.deadline());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(0), Code::kAccessDenied);
  EXPECT_EQ(reply->code(1), Code::kAccessDenied);
  EXPECT_EQ(served.world.word(0), 0u);
}

TEST(PrismService, scratch_is_a_sessions_own) {
  Served served;
  const auto mine = served.connect();
  const auto theirs = served.connect();
  Draft put;
  put->write(scratch(0), {}, bytes_of("secret"));
  ASSERT_TRUE(Client(*mine).run_and_wait(*put, served.deadline()).has_value());
  Draft get;
  get->read(scratch(0), {}, 6);
  const auto reply = Client(*theirs).run_and_wait(*get, served.deadline());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(text_of(reply->bytes(0)), std::string(6, '\0'));
}

TEST(PrismService, malformed_chain_is_answered_and_the_session_goes_on) {
  Served served;
  const auto session = served.connect();
  const std::vector<std::byte> nonsense(24, std::byte{0x55});
  EXPECT_EQ(session->call_and_wait({.method = kChainMethod, .tail = nonsense}, served.deadline()).code,
            Code::kMalformed);
  const Attachment attached = served.attach(*session);
  Draft draft;
  draft->fetch_add(attached.at(8), attached.key, 1);
  EXPECT_TRUE(Client(*session).run_and_wait(*draft, served.deadline()).has_value());
  EXPECT_EQ(served.service.counts().refused, 1u);
}

// Chains that append a mark of their own to a log in the region, so that the order in which they ran is seen.
[[nodiscard]] uint64_t start_marking(rpc::Session& session, const Attachment& attached, uint64_t& place) {
  Draft draft;
  draft->fetch_add(attached.at(8), attached.key, 1);
  draft->fetch_add(attached.at(16 + 8 * place++), attached.key, 1);
  return session.start({.method = kChainMethod, .tail = *(*draft).finish()});
}

TEST(PrismService, chains_beyond_the_budget_run_in_later_turns_one_of_each_session_in_turn) {
  Served served({.budget = 4});
  const auto busy = served.connect();
  const auto modest = served.connect();
  const Attachment all = served.attach(*busy);
  const Attachment some = served.attach(*modest);
  std::vector<uint64_t> many;
  uint64_t place = 0;
  for (int i = 0; i < 24; ++i) many.push_back(start_marking(*busy, all, place));
  const uint64_t one = start_marking(*modest, some, place);
  // Until the modest one has its answer: the busy one cannot have had all of its own.
  while (!modest->done(one)) (void)served.shard.poll_once();
  EXPECT_EQ(modest->finish(one).code, Code::kOk);
  EXPECT_LT(served.world.word(8), 12u);
  EXPECT_GT(served.service.counts().deferred, 0u);
  served.settle();
  for (size_t i = 0; i < many.size(); ++i) {
    ASSERT_TRUE(busy->done(many[i]));
    const auto reply = Reply::of(busy->finish(many[i]).bytes, 2);
    EXPECT_TRUE(reply.has_value());
  }
  EXPECT_EQ(served.world.word(8), 25u);
  EXPECT_EQ(served.service.waiting(), 0u);
}

TEST(PrismService, a_sessions_chains_keep_their_order_when_they_wait) {
  Served served({.budget = 3});
  const auto session = served.connect();
  const Attachment attached = served.attach(*session);
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 16; ++i) {
    Draft draft;
    draft->compare_swap({.address = attached.at(8),
                         .key = attached.key,
                         .compare = Operand::of(i),
                         .swap = Operand::of(i + 1)});
    ids.push_back(session->start({.method = kChainMethod, .tail = *(*draft).finish()}));
  }
  served.settle();
  EXPECT_EQ(served.world.word(8), 16u) << "each found what the one before it left";
  EXPECT_GT(served.service.counts().deferred, 0u);
  for (const uint64_t id : ids) EXPECT_EQ(session->finish(id).code, Code::kOk);
}

TEST(PrismService, more_than_may_wait_is_overloaded_and_nothing_of_it_runs) {
  Served served({.budget = 2, .waiting_bytes_max = 100});
  const auto session = served.connect();
  const Attachment attached = served.attach(*session);
  std::vector<uint64_t> ids;
  uint64_t place = 0;
  for (int i = 0; i < 8; ++i) ids.push_back(start_marking(*session, attached, place));
  served.settle();
  uint64_t answered = 0;
  uint64_t refused = 0;
  for (const uint64_t id : ids) {
    const Code code = session->finish(id).code;
    answered += code == Code::kOk ? 1 : 0;
    refused += code == Code::kOverloaded ? 1 : 0;
  }
  EXPECT_EQ(answered + refused, ids.size());
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(served.world.word(8), answered);
  EXPECT_EQ(served.service.counts().overloaded, refused);
}

TEST(PrismService, what_waits_for_a_session_that_ends_is_forgotten) {
  Served served({.budget = 1});
  auto session = served.connect();
  const Attachment attached = served.attach(*session);
  uint64_t place = 0;
  for (int i = 0; i < 32; ++i) (void)start_marking(*session, attached, place);
  while (served.service.waiting() == 0) (void)served.shard.poll_once();
  session.reset();
  while (served.server.session_count() > 0) (void)served.shard.poll_once();
  EXPECT_EQ(served.service.waiting(), 0u);
  const uint64_t executed = served.world.word(8);
  served.settle();
  EXPECT_EQ(served.world.word(8), executed);
}

TEST(PrismService, reply_is_cut_to_what_a_message_carries) {
  Served served;
  const auto session = served.connect();
  const Attachment attached = served.attach(*session);
  Draft draft;
  draft->read(attached.at(0), attached.key, 1500);
  draft->read(attached.at(0), attached.key, 1500);
  const auto reply = Client(*session).run_and_wait(*draft, served.deadline());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(0), Code::kOk);
  EXPECT_EQ(reply->code(1), Code::kTooLarge) << "the loopback's messages have 2048 bytes";
}

TEST(PrismService, batches_are_timed_by_sample) {
  Served served;
  const auto session = served.connect();
  const Attachment attached = served.attach(*session);
  Draft draft;
  draft->read(attached.at(0), attached.key, 8);
  for (uint64_t i = 0; i < 2 * Service::kTimedBatches; ++i) {
    ASSERT_TRUE(Client(*session).run_and_wait(*draft, served.deadline()).has_value());
  }
  const Service::Counts& counts = served.service.counts();
  EXPECT_EQ(counts.chains, 2 * Service::kTimedBatches);
  EXPECT_GE(counts.timed_batches, 2u);
  EXPECT_LE(counts.timed_batches, 3u);
  EXPECT_EQ(served.world.executor().counts().operations[1], counts.chains);
}

}  // namespace
}  // namespace refract::prism::snic
