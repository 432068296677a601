// SPDX-License-Identifier: Apache-2.0
// Published protocols on servers of this program, a thread each, by shared memory or TCP.
#include <fmt/core.h>

#include <utility>
#include <vector>

#include "bench/suites/suite_ends.h"
#include "bench/suites/txn_process.h"
#include "bench/txn/txn_design_client.h"

#include "refract/fabric/dispatcher.h"

namespace refract::bench {

using runtime::Task;

namespace {

constexpr uint64_t kServedHouse_ns = 2 * kMillisecond_ns;
constexpr size_t kTxnServerCore = 1;
constexpr uint64_t kTxnServerSpin_ns = 50 * kMicrosecond_ns;  // As a node's knob server.spin has it.
constexpr uint64_t kAttach_ns = 10 * kSecond_ns;
// A client that waits for a core of a busy machine is not dead.
constexpr uint64_t kAwayMax_ns = 30 * kSecond_ns;

// Polled whenever the server's thread looks at anything, so never while it sleeps.
class ServedTxn final : public Served, public runtime::Poller {
 public:
  ServedTxn(runtime::Shard& shard, std::unique_ptr<TxnProcess> process)
      : shard_(shard), process_(std::move(process)), due_ns_(shard.now_ns() + kServedHouse_ns) {
    shard_.add(*this);
  }
  ServedTxn(const ServedTxn&) = delete;
  ServedTxn& operator=(const ServedTxn&) = delete;
  ~ServedTxn() override { shard_.remove(*this); }

  size_t poll() noexcept override {
    if (shard_.now_ns() < due_ns_) return 0;
    process_->keep_house_now();
    due_ns_ = shard_.now_ns() + kServedHouse_ns;
    return 0;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "housekeeping"; }

 private:
  runtime::Shard& shard_;
  std::unique_ptr<TxnProcess> process_;
  uint64_t due_ns_;
};

class DesignTxnSide final : public TxnSide {
 public:
  DesignTxnSide(const TxnLoad& load, const txn::designs::Design& design)
      : TxnSide(std::string(design.name), load), design_(design) {
    set_how(fmt::format("{} thread{} of this program; as published, over {}", load.shards,
                        load.shards == 1 ? "" : "s", text(load.provider)));
  }
  // Until the domain is gone its channels may write into the protocol's clients.
  ~DesignTxnSide() override {
    shard_.drop_tasks();
    std::vector<std::unique_ptr<txn::designs::Client>> kept;
    for (const auto& client : clients_) kept.push_back(client->take_client());
    clients_.clear();
    dispatcher_.reset();
    domain_.reset();
  }

  [[nodiscard]] Reported<> serve(bool is_bound) {
    for (size_t i = 0; i < load().shards; ++i) {
      RealServer::Options options = {.fabric = fabric(), .shard = {.spin_ns = kTxnServerSpin_ns}};
      if (is_bound) options.core = kTxnServerCore + i;
      const TxnProcess::Spec spec = {
          .design = &design_, .capacity = txn_capacity(load()), .patience_ns = kAwayMax_ns};
      RealServer::Serve serve = [spec, mix = load().mix, i, servers = load().shards](
                                    runtime::Shard& shard,
                                    fabric::Domain& domain) -> Reported<std::unique_ptr<Served>> {
        Reported<std::unique_ptr<TxnProcess>> process = TxnProcess::start(spec, shard, domain);
        if (!process) return report(process.error());
        if (const Reported<> filled = load_txn_share(**process, mix, i, servers); !filled) {
          return report(filled.error());
        }
        return std::make_unique<ServedTxn>(shard, std::move(*process));
      };
      Reported<std::unique_ptr<RealServer>> server = RealServer::start(options, std::move(serve));
      if (!server) return report(server.error().code, fmt::format("{}: {}", name(), server.error().what));
      servers_.push_back(std::move(*server));
    }
    return {};
  }

  [[nodiscard]] Reported<> connect() {
    Reported<std::unique_ptr<fabric::Domain>> domain = open_client_domain(fabric());
    if (!domain) return report(domain.error());
    domain_ = std::move(*domain);
    dispatcher_ = std::make_unique<fabric::Dispatcher>(*domain_, shard_);
    for (size_t i = 0; i < load().clients; ++i) {
      std::vector<fabric::Channel*> channels;
      for (const auto& server : servers_) {
        const Reported<fabric::Channel*> channel = domain_->connect(server->address());
        if (!channel) return report(channel.error());
        channels.push_back(*channel);
      }
      clients_.push_back(
          std::make_unique<DesignTxnClient>(DesignTxnClient::Parts{.design = design_,
                                                                   .mix = load().mix,
                                                                   .shard = shard_,
                                                                   .clock = system_clock(),
                                                                   .channels = channels,
                                                                   .number = static_cast<uint16_t>(i + 1)}));
      const Code attached = runtime::block_on(shard_, clients_.back()->attach(kAttach_ns));
      if (attached != Code::kOk) return failed("attaching", attached);
    }
    return {};
  }

  [[nodiscard]] size_t clients() const noexcept override { return clients_.size(); }
  [[nodiscard]] TxnClient& client(size_t i) noexcept override { return *clients_[i]; }
  [[nodiscard]] runtime::Shard& shard_of(size_t /*i*/) noexcept override { return shard_; }
  void spawn(size_t /*i*/, Task<> task) override { shard_.spawn(std::move(task)); }
  [[nodiscard]] bool run_until(const std::function<bool()>& done) override { return shard_.run_until(done); }

 private:
  [[nodiscard]] SuiteFabric fabric() const noexcept {
    return load().provider == TxnProvider::kShm ? SuiteFabric::kShm : SuiteFabric::kTcp;
  }

  const txn::designs::Design& design_;
  std::vector<std::unique_ptr<RealServer>> servers_;
  runtime::Shard shard_{system_clock()};
  std::unique_ptr<fabric::Domain> domain_;
  std::unique_ptr<fabric::Dispatcher> dispatcher_;
  std::vector<std::unique_ptr<DesignTxnClient>> clients_;
};

}  // namespace

StartedTxnSide start_txn_design(const TxnLoad& load, const std::string& name, bool is_bound) {
  const Reported<const txn::designs::Design*> design = txn_design_of(name);
  if (!design) return report(design.error());
  auto side = std::make_unique<DesignTxnSide>(load, **design);
  if (const Reported<> served = side->serve(is_bound); !served) return report(served.error());
  if (const Reported<> connected = side->connect(); !connected) return report(connected.error());
  return side;
}

}  // namespace refract::bench
