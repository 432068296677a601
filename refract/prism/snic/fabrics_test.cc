// SPDX-License-Identifier: Apache-2.0
// Chains over every provider: the same outcomes, and one round trip for each chain, which is the point of
// them. What is counted is counted by the decorator at the client's end, not by prism.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/test_node.h"
#include "refract/fabric/sim/world.h"
#include "refract/fabric/tcp/test_node.h"
#include "refract/fabric/wrap/count.h"
#include "refract/prism/client.h"
#include "refract/prism/snic/service.h"
#include "refract/prism/snic/test_world.h"

namespace refract::prism::snic {
namespace {

using test::bytes_of;
using test::Draft;
using test::kRegion;
using test::text_of;

// Two domains that reach each other, and whatever moves what lies between them.
class Ends {
 public:
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  virtual ~Ends() = default;
  [[nodiscard]] virtual fabric::Domain& client() = 0;
  [[nodiscard]] virtual fabric::Domain& server() = 0;
  [[nodiscard]] virtual std::string address() = 0;
  virtual void pump() {}
};

class LoopbackEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return client_; }
  [[nodiscard]] fabric::Domain& server() override { return server_; }
  [[nodiscard]] std::string address() override { return "server"; }

 private:
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain client_{hub_, "client"};
  fabric::LoopbackDomain server_{hub_, "server"};
};

class SimEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return client_.domain(); }
  [[nodiscard]] fabric::Domain& server() override { return server_.domain(); }
  [[nodiscard]] std::string address() override { return "server"; }
  void pump() override { EXPECT_TRUE(world_.run_for(20 * kMicrosecond_ns)); }

 private:
  [[nodiscard]] static sim::WorldOptions options() {
    sim::WorldOptions options = {.seed = 5};
    options.steps_max = UINT64_MAX;  // The test polls as long as it likes.
    return options;
  }
  sim::World world_{options()};
  sim::Host& client_ = world_.add_host("client");
  sim::Host& server_ = world_.add_host("server");
};

class ShmEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return *client_; }
  [[nodiscard]] fabric::Domain& server() override { return node_.server(); }
  [[nodiscard]] std::string address() override { return node_.path(); }
  void pump() override { node_.meeting().poll(); }

 private:
  fabric::shm::TestNode node_;
  std::unique_ptr<fabric::shm::ClientDomain> client_ = fabric::shm::make_client();
};

class TcpEnds final : public Ends {
 public:
  [[nodiscard]] fabric::Domain& client() override { return *client_; }
  [[nodiscard]] fabric::Domain& server() override { return node_.server(); }
  [[nodiscard]] std::string address() override { return node_.address(); }
  void pump() override { node_.pump(); }

 private:
  fabric::tcp::TestNode node_;
  std::unique_ptr<fabric::tcp::ClientDomain> client_ =
      std::move(fabric::tcp::ClientDomain::create({}).value());
};

struct Provider {
  std::string name;
  std::function<std::unique_ptr<Ends>()> make;
};
void PrintTo(const Provider& provider, std::ostream* out) {
  *out << provider.name;
}

class PrismFabrics : public testing::TestWithParam<Provider> {
 protected:
  PrismFabrics() {
    service_.answer_through(&server_);
    EXPECT_TRUE(
        service_.offer({.store = "words", .region = kRegion, .rights = {ChainRights::kAll}}).has_value());
  }

  void pump() {
    ends_->pump();
    (void)shard_.poll_once();
  }
  template <typename T>
  [[nodiscard]] T wait(runtime::Task<T> task) {
    shard_.refresh_now();
    task.start();
    while (!task.done()) pump();
    return task.take();
  }
  [[nodiscard]] std::unique_ptr<rpc::Session> connect() {
    auto session = std::make_unique<rpc::Session>(**counted_.connect(ends_->address()), shard_);
    while (session->state() == rpc::Session::State::kOpening) pump();
    EXPECT_EQ(session->state(), rpc::Session::State::kOpen);
    return session;
  }
  [[nodiscard]] uint64_t deadline() { return shard_.refresh_now() + 30 * kSecond_ns; }

  test::World world_;
  std::unique_ptr<Ends> ends_ = GetParam().make();
  runtime::Shard shard_{system_clock()};
  Service service_{world_.executor(), shard_};
  rpc::Server server_{service_, shard_};
  fabric::CountDomain counted_{ends_->client()};
  fabric::Dispatcher server_dispatcher_{ends_->server(), shard_, &server_};
  fabric::Dispatcher client_dispatcher_{counted_, shard_};
};

TEST_P(PrismFabrics, each_chain_takes_one_round_trip) {
  const auto session = connect();
  Client client(*session);
  const auto words = wait(client.attach("words", {ChainRights::kAll}, deadline()));
  ASSERT_TRUE(words.has_value());
  counted_.reset_counts();

  for (uint64_t version = 1; version <= 5; ++version) {
    const std::string value = "value " + std::to_string(version);
    // ALLOCATE, WRITE of a version, and the CAS that installs the buffer: the paper's put.
    const uint64_t old_word = world_.word(8);
    Draft put;
    put->allocate(words->at(0), words->key, bytes_of(value)).redirect(0).owned();
    put->write(words->at(16), words->key, std::as_bytes(std::span(&version, 1))).conditional();
    put->compare_swap({.address = words->at(8),
                       .key = words->key,
                       .compare = Operand::of(old_word),
                       .swap = Operand::at(scratch(0))})
        .conditional()
        .retire();
    const auto installed = wait(client.run(*put, deadline()));
    ASSERT_TRUE(installed.has_value());
    EXPECT_TRUE(installed->all_ok());

    Draft get;
    get->read(words->at(8), words->key, 7).indirect();
    const auto got = wait(client.run(*get, deadline()));
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(text_of(got->bytes(0)), value);
    EXPECT_EQ(counted_.counts().round_trips, 2 * version);
  }
  EXPECT_EQ(world_.free_buffers(), 7u);
  EXPECT_EQ(counted_.counts().requests_of(fabric::Op::kSend), 10u);
  EXPECT_EQ(counted_.counts().messages_received, 10u);
}

TEST_P(PrismFabrics, many_chains_under_way_all_come_back) {
  const auto session = connect();
  Client client(*session);
  const auto words = wait(client.attach("words", {ChainRights::kAll}, deadline()));
  ASSERT_TRUE(words.has_value());
  Draft add;
  add->fetch_add(words->at(8), words->key, 1);
  std::vector<runtime::Task<Result<Reply>>> chains;
  for (int i = 0; i < 200; ++i) chains.push_back(client.run(*add, deadline()));
  shard_.refresh_now();
  for (auto& chain : chains) chain.start();
  for (auto& chain : chains) {
    while (!chain.done()) pump();
    const Result<Reply> reply = chain.take();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->code(0), Code::kOk);
  }
  EXPECT_EQ(world_.word(8), 200u);
}

TEST_P(PrismFabrics, key_does_not_outlive_its_session) {
  auto first = connect();
  const auto words = wait(Client(*first).attach("words", {ChainRights::kAll}, deadline()));
  ASSERT_TRUE(words.has_value());
  first.reset();
  while (server_.session_count() > 0) pump();
  const auto second = connect();
  Client client(*second);
  Draft draft;
  draft->write(words->at(8), words->key, bytes_of("late"));
  const auto reply = wait(client.run(*draft, deadline()));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(0), Code::kAccessDenied);
  EXPECT_EQ(world_.word(8), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    All, PrismFabrics,
    testing::Values(Provider{"loopback", [] { return std::make_unique<LoopbackEnds>(); }},
                    Provider{"sim", [] { return std::make_unique<SimEnds>(); }},
                    Provider{"shm", [] { return std::make_unique<ShmEnds>(); }},
                    Provider{"tcp", [] { return std::make_unique<TcpEnds>(); }}),
    [](const testing::TestParamInfo<Provider>& provider) { return provider.param.name; });

}  // namespace
}  // namespace refract::prism::snic
