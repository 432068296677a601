// SPDX-License-Identifier: Apache-2.0
// The suites of key-value stores, of PRISM's chains and of objects over RDMA devices, with both ends in one
// thread: READs of the owner's memory, and chains, over queue pairs that were connected by exchange and by
// librdmacm. Calls are under way in each of them, since what neither of the two can do is a call.
#include <memory>
#include <string>
#include <utility>

#include "tests/verbs/two_ends.h"

#include "refract/fabric/dispatcher.h"
#include "refract/kv/testing/conformance.h"
#include "refract/kv/testing/conformance_ways.h"
#include "refract/kv/testing/test_owner.h"
#include "refract/object/testing/conformance.h"
#include "refract/prism/snic/test_fabrics.h"

namespace refract {
namespace {

using fabric::verbs::ConnectBy;
using fabric::verbs::Options;
using fabric::verbs::TwoEnds;
using fabric::verbs::Wakeful;

constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

class VerbsStore final : public kv::StoreFixture {
 public:
  explicit VerbsStore(ConnectBy way) : ends_({.device = {}, .channels_max = 0, .connect_by = way}) {
    const Reported<fabric::Channel*> channel = ends_.client().connect(ends_.node().address());
    EXPECT_TRUE(channel.has_value());
    session_ = std::make_unique<rpc::Session>(**channel, shard_);
    EXPECT_TRUE(shard_.run_until([&] { return session_->state() == rpc::Session::State::kOpen; },
                                 shard_.refresh_now() + kPatience_ns))
        << ends_.client().last_refusal().to_string();
    client_ =
        std::make_unique<kv::RpcClient>(*session_, shard_, kv::RpcClientOptions{.timeout_ns = kPatience_ns});
    message_bytes_max_ = (*channel)->capabilities().message_bytes_max;
  }

  [[nodiscard]] kv::RpcClient& client() override { return *client_; }
  [[nodiscard]] runtime::Shard& shard() override { return shard_; }
  [[nodiscard]] uint64_t wall_ns() override { return clock_.wall_ns(); }
  void let_pass_ns(uint64_t ns) override {
    clock_.shift_ns += ns;
    shard_.refresh_now();
  }
  [[nodiscard]] size_t message_bytes_max() override { return message_bytes_max_; }
  [[nodiscard]] bool is_sound(uint64_t entries) override {
    return !owner_.table.validate().has_value() && owner_.table.stats().entries == entries;
  }

 private:
  kv::ShiftedClock clock_;
  TwoEnds ends_;
  Wakeful idler_{ends_};
  runtime::Shard shard_{clock_, {.idler = &idler_}};
  kv::test::Space space_{{.chunks = 64, .chunks_max = 64}};
  kv::test::Owner owner_{shard_, ends_.server(), clock_, {.base = space_.base(), .count = space_.bytes()}};
  fabric::Dispatcher dispatcher_{ends_.client(), shard_};
  std::unique_ptr<rpc::Session> session_;
  std::unique_ptr<kv::RpcClient> client_;
  size_t message_bytes_max_ = 0;
};

std::unique_ptr<kv::StoreFixture> by_exchange() {
  return std::make_unique<VerbsStore>(ConnectBy::kExchange);
}

class VerbsEnds final : public prism::snic::Ends {
 public:
  explicit VerbsEnds(ConnectBy way) : ends_({.device = {}, .channels_max = 0, .connect_by = way}) {}
  [[nodiscard]] fabric::Domain& client() override { return ends_.client(); }
  [[nodiscard]] fabric::Domain& server() override { return ends_.server(); }
  [[nodiscard]] std::string address() override { return ends_.node().address(); }
  void pump() override { ends_.pump(); }

 private:
  TwoEnds ends_;
};

// The owner READs what is filled, and the client what it gets.
class VerbsObjects final : public object::ObjectWay {
 public:
  [[nodiscard]] object::ObjectCalls& calls() override { return open_.calls(); }
  [[nodiscard]] runtime::Shard& shard() override { return shard_; }
  [[nodiscard]] size_t message_bytes_max() override {
    return open_.channel().capabilities().message_bytes_max;
  }
  [[nodiscard]] object::test::Owner& owner() override { return owner_; }

 private:
  TwoEnds ends_;
  Wakeful idler_{ends_};
  runtime::Shard shard_{system_clock(), {.idler = &idler_}};
  object::OwnersMemory memory_{system_clock()};
  object::test::Owner owner_{shard_, ends_.server(), system_clock(), memory_.options()};
  fabric::Dispatcher dispatcher_{ends_.client(), shard_};
  object::OpenCalls open_{ends_.client(), ends_.node().address(), shard_, true};
};

}  // namespace

namespace kv {

INSTANTIATE_TEST_SUITE_P(
    Verbs, KvConformance,
    testing::Values(
        Store{"chains", [] { return std::make_unique<ChainStore>(by_exchange()); }},
        Store{"reads", [] { return std::make_unique<RemoteStore>(by_exchange(), RemoteClientOptions{}); }}),
    store_name);
INSTANTIATE_TEST_SUITE_P(RdmaCm, KvConformance,
                         testing::Values(Store{"reads_rdma_cm",
                                               [] {
                                                 return std::make_unique<RemoteStore>(
                                                     std::make_unique<VerbsStore>(ConnectBy::kRdmaCm),
                                                     RemoteClientOptions{});
                                               }}),
                         store_name);

}  // namespace kv

namespace object {

INSTANTIATE_TEST_SUITE_P(Verbs, ObjectConformance,
                         testing::Values(Way{"verbs", [] { return std::make_unique<VerbsObjects>(); }}),
                         name_of_way);

}  // namespace object

namespace prism::snic {

INSTANTIATE_TEST_SUITE_P(Verbs, PrismFabrics,
                         testing::Values(Provider{
                             "exchange", [] { return std::make_unique<VerbsEnds>(ConnectBy::kExchange); }}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(RdmaCm, PrismFabrics,
                         testing::Values(Provider{
                             "rdma_cm", [] { return std::make_unique<VerbsEnds>(ConnectBy::kRdmaCm); }}),
                         provider_name);

}  // namespace prism::snic
}  // namespace refract
