// SPDX-License-Identifier: Apache-2.0
// Our transactions and published protocols on the simulated testbed of suite prism-tx: its ports, distances
// and what a message costs a core there. A node of ours has a core for each of its shards; a server of a
// published protocol has as many, for whatever arrives.
#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/suites/suite.h"
#include "bench/suites/suite_testbed.h"
#include "bench/suites/txn_process.h"
#include "bench/txn/sim_txn_client.h"
#include "bench/txn/sim_txn_node.h"
#include "bench/txn/txn_design_client.h"

#include "refract/base/units.h"

namespace refract::bench {

using runtime::Task;

namespace {

constexpr uint64_t kSimAttach_ns = 10 * kSecond_ns;

struct SimTxnTestbed {
  Suite suite;
  System system;  // What its messages cost: of the design, or for ours of any.
};

Reported<SimTxnTestbed> testbed_of(std::string_view design) {
  Reported<Suite> suite = read_suite("prism-tx");
  if (!suite) return report(suite.error());
  const auto is_of = [design](const System& system) { return system.design == design; };
  const auto found = std::ranges::find_if(suite->systems, is_of);
  System system = found == suite->systems.end() ? suite->systems.front() : *found;
  return SimTxnTestbed{std::move(*suite), std::move(system)};
}

// What both kinds of side have: a world, and clients on hosts of it.
class SimTxnSide : public TxnSide {
 public:
  SimTxnSide(std::string name, const TxnLoad& load, SimTxnTestbed testbed)
      : TxnSide(std::move(name), load), testbed_(std::move(testbed)), world_(world_of(testbed_.suite, 0)) {}
  ~SimTxnSide() override = default;

  [[nodiscard]] size_t clients() const noexcept override { return clients_.size(); }
  [[nodiscard]] TxnClient& client(size_t i) noexcept override { return *clients_[i].client; }
  [[nodiscard]] runtime::Shard& shard_of(size_t i) noexcept override { return clients_[i].host->shard(); }
  void spawn(size_t i, Task<> task) override { world_.spawn(*clients_[i].host, std::move(task)); }
  [[nodiscard]] bool run_until(const std::function<bool()>& done) override { return world_.run_until(done); }

 protected:
  struct Client {
    sim::Host* host;
    TxnClient* client;  // Belongs to its host.
  };

  [[nodiscard]] sim::MachineOptions server_machine(uint32_t cores) const {
    sim::MachineOptions options = machine_of(testbed_.suite.testbed);
    options.one_sided_gap_ns = static_cast<uint64_t>(testbed_.suite.testbed.read_gap_us * 1e3);
    options.cores = cores;
    options.work = [system = testbed_.system](const sim::Arrival& arrival) {
      return work_of(system, arrival);
    };
    return options;
  }
  [[nodiscard]] std::vector<sim::Host*> add_client_hosts() {
    std::vector<sim::Host*> hosts;
    // Those of the testbed; beside several nodes two for each at least, whose ports are then not full.
    const size_t wanted = std::max<size_t>(testbed_.suite.testbed.client_hosts, 2 * load().nodes);
    const size_t count = std::min(wanted, load().clients);
    for (size_t i = 0; i < count; ++i) {
      hosts.push_back(&world_.add_host(fmt::format("client{}", i)));
      hosts.back()->install(machine_of(testbed_.suite.testbed));
    }
    return hosts;
  }
  // Runs these until all have said how they ended.
  [[nodiscard]] Reported<> await(size_t& at_work, Code& worst, std::string_view doing) {
    if (!world_.run_until([&at_work] { return at_work == 0; })) return failed(doing, Code::kSystem);
    if (worst != Code::kOk) return failed(doing, worst);
    return {};
  }
  [[nodiscard]] static Task<> count_down(Task<Code> task, size_t& at_work, Code& worst) {
    const Code code = co_await std::move(task);
    if (code != Code::kOk) worst = code;
    --at_work;
  }
  [[nodiscard]] sim::World& world() noexcept { return world_; }
  [[nodiscard]] SimTxnNode& add_node(std::unique_ptr<SimTxnNode> node) {
    return *memories_.emplace_back(std::move(node));
  }
  void add_client(sim::Host& host, TxnClient& client) { clients_.push_back({&host, &client}); }

 private:
  SimTxnTestbed testbed_;
  // Ours alone has such. They go behind the world, whose hosts use what they have.
  std::vector<std::unique_ptr<SimTxnNode>> memories_;
  sim::World world_;
  std::vector<Client> clients_;
};

class OurSimTxnSide final : public SimTxnSide {
 public:
  OurSimTxnSide(const TxnLoad& load, SimTxnTestbed testbed)
      : SimTxnSide(std::string(kTxnOurs), load, std::move(testbed)),
        places_{.nodes = static_cast<uint32_t>(load.nodes), .shards = static_cast<uint32_t>(load.shards)} {
    set_how(fmt::format("{} node{} of {} shard{}, a core each; reads and commits by calls", load.nodes,
                        load.nodes == 1 ? "" : "s", load.shards, load.shards == 1 ? "" : "s"));
  }

  [[nodiscard]] Reported<> serve() {
    for (uint32_t member = 0; member < places_.nodes; ++member) {
      SimTxnNode& node = add_node(std::make_unique<SimTxnNode>(load().mix, places_, member));
      sim::Host* first = nullptr;
      for (uint32_t shard = 0; shard < places_.shards; ++shard) {
        sim::Host& host = world().add_host(SimTxnPlaces::host_name(member, shard));
        if (first == nullptr) {
          host.install(server_machine(1));
          first = &host;
        } else {
          host.install_beside(*first, server_machine(1));
        }
        if (const Reported<> served = node.serve(host, shard); !served) return served;
      }
    }
    return {};
  }
  [[nodiscard]] Reported<> connect() {
    const std::vector<sim::Host*> hosts = add_client_hosts();
    std::vector<SimTxnLinks*> links;
    size_t at_work = hosts.size();
    Code worst = Code::kOk;
    for (sim::Host* host : hosts) {
      links.push_back(&host->emplace<SimTxnLinks>(*host, places_));
      if (const Reported<> connected = links.back()->connect(); !connected) return connected;
      world().spawn(*host, count_down(links.back()->open(), at_work, worst));
    }
    for (size_t i = 0; i < load().clients; ++i) {
      const size_t at = i % hosts.size();
      add_client(*hosts[at], hosts[at]->emplace<SimTxnClient>(*links[at], load().mix, i + 1));
    }
    return await(at_work, worst, "connecting");
  }
  [[nodiscard]] TxnPlans::NodeOf nodes() const override {
    return [mix = load().mix, places = places_](uint64_t group) {
      const uint64_t entry = mix.workload == TxnWorkload::kSmallBank ? 2 * group : group;
      return places.node_of(bytes_of(txn_key(mix, entry)));
    };
  }

 private:
  const SimTxnPlaces places_;
};

class DesignSimTxnSide final : public SimTxnSide {
 public:
  DesignSimTxnSide(const TxnLoad& load, SimTxnTestbed testbed, const txn::designs::Design& design)
      : SimTxnSide(std::string(design.name), load, std::move(testbed)), design_(design) {
    set_how(fmt::format("{} server{} of {} core{}, as published", load.nodes, load.nodes == 1 ? "" : "s",
                        load.shards, load.shards == 1 ? "" : "s"));
  }

  [[nodiscard]] Reported<> serve() {
    txn::designs::Capacity capacity = txn_capacity(load());
    capacity.keys_max = capacity.keys_max / load().nodes * 5 / 4 + 1'024;
    for (size_t i = 0; i < load().nodes; ++i) {
      sim::Host& host = world().add_host(SimTxnPlaces::host_name(static_cast<uint32_t>(i), 0));
      host.install(server_machine(static_cast<uint32_t>(load().shards)));
      Reported<std::unique_ptr<TxnProcess>> started =
          TxnProcess::start({.design = &design_, .capacity = capacity}, host.shard(), host.domain());
      if (!started) return report(started.error());
      TxnProcess& process = *host.emplace<std::unique_ptr<TxnProcess>>(std::move(*started));
      if (const Reported<> filled = load_txn_share(process, load().mix, i, load().nodes); !filled)
        return filled;
      world().spawn(host, process.keep_house());
    }
    return {};
  }
  [[nodiscard]] Reported<> connect() {
    const std::vector<sim::Host*> hosts = add_client_hosts();
    for (sim::Host* host : hosts) host->emplace<fabric::Dispatcher>(host->domain(), host->shard());
    size_t at_work = load().clients;
    Code worst = Code::kOk;
    for (size_t i = 0; i < load().clients; ++i) {
      sim::Host& host = *hosts[i % hosts.size()];
      std::vector<fabric::Channel*> channels;
      for (size_t node = 0; node < load().nodes; ++node) {
        const std::string name = SimTxnPlaces::host_name(static_cast<uint32_t>(node), 0);
        const Reported<fabric::Channel*> channel = host.domain().connect(name);
        if (!channel) return report(channel.error());
        channels.push_back(*channel);
      }
      auto& client =
          host.emplace<DesignTxnClient>(DesignTxnClient::Parts{.design = design_,
                                                               .mix = load().mix,
                                                               .shard = host.shard(),
                                                               .clock = host.clock(),
                                                               .channels = channels,
                                                               .number = static_cast<uint16_t>(i + 1)});
      add_client(host, client);
      world().spawn(host, count_down(client.attach(kSimAttach_ns), at_work, worst));
    }
    return await(at_work, worst, "attaching");
  }
  [[nodiscard]] TxnPlans::NodeOf nodes() const override {
    return [mix = load().mix, nodes = load().nodes](uint64_t group) {
      return static_cast<uint32_t>(txn::designs::server_of(bytes_of(txn_key(mix, group)), nodes));
    };
  }

 private:
  const txn::designs::Design& design_;
};

template <typename Side>
StartedTxnSide begin(std::unique_ptr<Side> side) {
  if (const Reported<> served = side->serve(); !served) return report(served.error());
  if (const Reported<> connected = side->connect(); !connected) return report(connected.error());
  return side;
}

}  // namespace

StartedTxnSide start_simulated_txn_side(const TxnLoad& load, const std::string& name) {
  Reported<SimTxnTestbed> testbed = testbed_of(name);
  if (!testbed) return report(testbed.error());
  if (name == kTxnOurs) return begin(std::make_unique<OurSimTxnSide>(load, std::move(*testbed)));
  const Reported<const txn::designs::Design*> design = txn_design_of(name);
  if (!design) return report(design.error());
  return begin(std::make_unique<DesignSimTxnSide>(load, std::move(*testbed), **design));
}

}  // namespace refract::bench
