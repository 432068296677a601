// SPDX-License-Identifier: Apache-2.0
// The ways to reach a store that the suite of conformance.h runs over.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/test_node.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/testing/conformance.h"
#include "refract/kv/testing/conformance_ways.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_owner.h"
#include "refract/kv/testing/test_service.h"
#include "refract/kv/testing/test_sim_service.h"

namespace refract::kv {
namespace {

// Calls over the loopback provider, in virtual time.
class LoopbackStore : public StoreFixture {
 public:
  explicit LoopbackStore(const fabric::LoopbackOptions& link)
      : served_({.link = link}), peer_(served_.connect()), message_bytes_max_(link.message_bytes_max) {}

  [[nodiscard]] RpcClient& client() override { return *peer_.client; }
  [[nodiscard]] runtime::Shard& shard() override { return served_.shard; }
  [[nodiscard]] uint64_t wall_ns() override { return served_.space.clock().wall_ns(); }
  void let_pass_ns(uint64_t ns) override { served_.space.clock().advance_ns(ns); }
  [[nodiscard]] size_t message_bytes_max() override { return message_bytes_max_; }
  [[nodiscard]] bool is_sound(uint64_t entries) override {
    return served_.is_sound() && served_.space.table().stats().entries == entries;
  }

 protected:
  [[nodiscard]] test::Served& served() noexcept { return served_; }
  [[nodiscard]] test::Space& space() noexcept { return served_.space; }

 private:
  test::Served served_;
  test::Served::Peer peer_;
  size_t message_bytes_max_;
};

// With a log, which confirms what was appended a turn later.
class LoggedStore final : public LoopbackStore, public runtime::Poller {
 public:
  explicit LoggedStore(const fabric::LoopbackOptions& link) : LoopbackStore(link) {
    log_.waits = true;
    space().table().log_to(&log_);
    shard().add(*this);
  }
  LoggedStore(const LoggedStore&) = delete;
  LoggedStore& operator=(const LoggedStore&) = delete;
  // Such a row would show nothing.
  ~LoggedStore() override {
    shard().remove(*this);
    space().table().log_to(nullptr);
    EXPECT_EQ(held_ > 0, log_.position > 0);
  }
  size_t poll() noexcept override {
    if (log_.confirmed_position == log_.position) return 0;
    held_ += served().service.log_stats().held_answers;
    log_.confirm_all();
    return 1 + served().service.on_log_progress();
  }
  [[nodiscard]] bool prepare_sleep() noexcept override { return log_.confirmed_position == log_.position; }
  [[nodiscard]] std::string_view name() const noexcept override { return "log"; }

 private:
  test::ManualLog log_;
  uint64_t held_ = 0;
};

// Reads by plain loads from the owner's memory, as a client on its host does.
class DirectStore final : public LoopbackStore {
 public:
  DirectStore()
      : LoopbackStore({.depth = 32, .message_bytes_max = 32 * 1024}),
        pins_(table_.get()),
        memory_(space().base(), space().bytes(), &pins_),
        reader_(memory_, space().clock()) {}

  [[nodiscard]] Result<Got> get(Bytes key, ValueSink& sink) override {
    const Found found = reader_.get(key, reader_.hash(key), [&](uint64_t bytes) { return sink.room(bytes); });
    return result_of(found);
  }
  [[nodiscard]] Result<Got> get_and_wait(Bytes key, ValueSink& sink) override { return get(key, sink); }
  [[nodiscard]] Result<Got> exists(Bytes key) override {
    return result_of(reader_.look(key, reader_.hash(key)));
  }
  [[nodiscard]] Result<RpcClient::Page> scan(uint64_t cursor, uint64_t keys_min) override {
    RpcClient::Page page;
    const auto step = reader_.scan(cursor, keys_min, [&](Bytes key, uint64_t version, uint64_t value_bytes) {
      page.keys.push_back({.key = test::text_of(key), .version = version, .value_bytes = value_bytes});
    });
    if (step.code != Code::kOk) return fail(step.code);
    page.next = step.next;
    return page;
  }

 private:
  [[nodiscard]] static Result<Got> result_of(const Found& found) {
    // A sink that refuses is told by the length's code, as over calls.
    if (found.code != Code::kOk) return fail(found.code);
    return Got{
        .version = found.version, .value_bytes = found.value_bytes, .expires_wall_ns = found.expires_wall_ns};
  }

  std::unique_ptr<PinTable> table_ = std::make_unique<PinTable>();
  PinWriter pins_;
  MappedMemory memory_;
  DirectReader<MappedMemory> reader_;
};

// Calls over the simulated network.
class SimStore final : public StoreFixture {
 public:
  explicit SimStore(const sim::WorldOptions& options) : world_(options) {
    bool is_connected = false;
    const auto connect = [](SimStore& store, bool& done) -> runtime::Task<> {
      store.rpc_ = co_await store.connection_.connected();
      done = true;
    };
    world_.spawn(host_, connect(*this, is_connected));
    EXPECT_TRUE(world_.run_until([&] { return is_connected; }));
  }

  [[nodiscard]] RpcClient& client() override { return *rpc_; }
  [[nodiscard]] runtime::Shard& shard() override { return host_.shard(); }
  [[nodiscard]] uint64_t wall_ns() override { return node_.host.clock().wall_ns(); }
  void let_pass_ns(uint64_t ns) override { EXPECT_TRUE(world_.run_for(ns)); }
  [[nodiscard]] size_t message_bytes_max() override { return world_.options().message_bytes_max; }
  [[nodiscard]] bool is_sound(uint64_t entries) override {
    Table& table = node_.process->table;
    return !table.validate().has_value() && table.stats().entries == entries;
  }

 private:
  sim::World world_;
  test::SimNode node_{world_, 48};
  sim::Host& host_ = world_.add_host("client");
  test::SimClient connection_{host_};
  RpcClient* rpc_ = nullptr;
};

// Calls over TCP, both ends in this thread.
class TcpStore final : public StoreFixture {
 public:
  TcpStore() {
    const Reported<fabric::Channel*> channel = domain_->connect(node_.address());
    EXPECT_TRUE(channel.has_value());
    session_ = std::make_unique<rpc::Session>(**channel, shard_);
    EXPECT_TRUE(shard_.run_until([&] { return session_->state() == rpc::Session::State::kOpen; },
                                 shard_.refresh_now() + 10 * kSecond_ns));
    client_ = std::make_unique<RpcClient>(*session_, shard_, RpcClientOptions{.timeout_ns = 60 * kSecond_ns});
    message_bytes_max_ = (*channel)->capabilities().message_bytes_max;
  }

  [[nodiscard]] RpcClient& client() override { return *client_; }
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
  // No thread sleeps: the handshakes of the other end are this thread's work, too.
  class Wakeful final : public runtime::Idler {
   public:
    explicit Wakeful(fabric::tcp::TestNode& node) noexcept : node_(node) {}
    [[nodiscard]] bool idle(uint64_t) noexcept override {
      node_.pump();
      return true;
    }

   private:
    fabric::tcp::TestNode& node_;
  };

  ShiftedClock clock_;
  fabric::tcp::TestNode node_;
  Wakeful idler_{node_};
  runtime::Shard shard_{clock_, {.idler = &idler_}};
  test::Space space_{{.chunks = 64, .chunks_max = 64}};
  test::Owner owner_{shard_, node_.server(), clock_, {.base = space_.base(), .count = space_.bytes()}};
  std::unique_ptr<fabric::tcp::ClientDomain> domain_ =
      refract::test::needed(fabric::tcp::ClientDomain::create({}));
  fabric::Dispatcher dispatcher_{*domain_, shard_};
  std::unique_ptr<rpc::Session> session_;
  std::unique_ptr<RpcClient> client_;
  size_t message_bytes_max_ = 0;
};

void add_remote(std::vector<Store>& all) {
  const auto row = std::ranges::find(all, "sim", &Store::name);
  const auto make = row->make;
  const auto add = [&all, make](std::string name, const RemoteClientOptions& options) {
    all.push_back(
        {std::move(name), [make, options] { return std::make_unique<RemoteStore>(make(), options); }});
  };
  add("remote", {});
  add("remote_without_locations", {.location_bytes = 0});
  add("remote_with_exact_clock", {.clock_error_ns = 0});
  add("remote_unconfirming", {.confirms_stamps = false});
}

// The rows again, by chains.
void add_chains(std::vector<Store>& all, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto row = std::ranges::find(all, name, &Store::name);
    const auto make = row->make;
    all.push_back({"chain_" + name, [make] { return std::make_unique<ChainStore>(make()); }});
  }
}

std::vector<Store> stores() {
  std::vector<Store> all;
  const auto add_loopback = [&all](std::string name, const fabric::LoopbackOptions& link) {
    all.push_back({std::move(name), [link] { return std::make_unique<LoopbackStore>(link); }});
  };
  add_loopback("small_messages", {.depth = 32, .message_bytes_max = 1024});
  add_loopback("large_messages", {.depth = 32, .message_bytes_max = 32 * 1024});
  add_loopback("windows", {.depth = 32, .message_bytes_max = 32 * 1024, .one_sided_bytes_min = 64 * 1024});
  all.push_back({"logged", [] {
                   return std::make_unique<LoggedStore>(
                       fabric::LoopbackOptions{.depth = 32, .message_bytes_max = 1024});
                 }});
  all.push_back({"direct", [] { return std::make_unique<DirectStore>(); }});
  const auto add_sim = [&all](std::string name, const sim::WorldOptions& options) {
    all.push_back({std::move(name), [options] { return std::make_unique<SimStore>(options); }});
  };
  add_sim("sim", {.seed = 1, .message_bytes_max = 16 * 1024});
  add_sim("sim_windows", {.seed = 2, .message_bytes_max = 16 * 1024, .one_sided_bytes_min = 16 * 1024});
  all.push_back({"tcp", [] { return std::make_unique<TcpStore>(); }});
  add_chains(all, {"small_messages", "large_messages", "sim", "tcp"});
  add_remote(all);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Stores, KvConformance, testing::ValuesIn(stores()), store_name);

}  // namespace
}  // namespace refract::kv
