// SPDX-License-Identifier: Apache-2.0
#include "tests/nodes_transactions/nodes_campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "tests/campaign/chaos.h"
#include "tests/campaign/kv_server.h"
#include "tests/campaign/model.h"
#include "tests/nodes_transactions/meddler.h"
#include "tests/nodes_transactions/several_nodes.h"
#include "tests/transactions/stage.h"
#include "tests/transactions/transactor.h"
#include "tests/transactions/wire_tap.h"
#include "tests/transactions/word_counter.h"

#include "refract/base/testing/serialisability/checker.h"
#include "refract/base/testing/serialisability/picture.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/parts/home_words.h"

namespace refract::campaign {
namespace {

constexpr double kKilledRecoveries = 0.2;
constexpr int kClients = 3;
constexpr int kOperations = 1'000;
constexpr uint64_t kFewWords = 20;

bool crashes_often(uint64_t seed) {
  return seed % 2 == 0;
}

sim::WorldOptions options_of(uint64_t seed) {
  sim::WorldOptions options = world_options(seed, crashes_often(seed));
  options.steps_max = 20'000'000;
  return options;
}

class NodesCampaign {
 public:
  NodesCampaign(uint64_t seed, Mutation mutation)
      : run_{.seed = seed,
             .clients = kClients,
             .operations = kOperations,
             .mutation = mutation,
             .is_over_nodes = true},
        owned_world_(options_of(seed)),
        world_(*owned_world_),
        stage_{.run = run_, .world = world_, .process = nodes_, .recorder = {}, .outcome = {}, .names = {}},
        chaos_(world_, hosts_, nodes_, clients_,
               {.away_max_ns = away_max_ns(),
                .crashes_often = crashes_often(seed),
                .steps_clocks = !stage_.expires()}) {
    // So that each word is used several times.
    stage_.operations_left = stage_.has_few_words() ? 2 * run_.operations : run_.operations;
    make_nodes();
    for (int i = 0; i < run_.clients; ++i) add_client(fmt::format("client{}", i), i == 0 ? 0.01 : 0.001);
    add_meddler();
    if (stage_.evicts() || stage_.grows()) add_helper("filler", &Transactor::fill_up);
    if (stage_.expires()) add_helper("watcher", &Transactor::watch);
  }
  NodesCampaign(const NodesCampaign&) = delete;
  NodesCampaign& operator=(const NodesCampaign&) = delete;
  // What lives in the hosts uses everything else here.
  ~NodesCampaign() { owned_world_.reset(); }

  [[nodiscard]] NodesOutcome run() {
    chaos_.begin();
    stage_.on_linger = [this] { chaos_.strike(); };
    bring_back_the_dead();
    run_until("the clients never end",
              [this] { return stage_.clients_at_work == 0 && stage_.operations_left == 0; });
    is_calm_ = true;
    chaos_.calm();
    run_until("the nodes never recover", [this] { return are_up(); });
    for (uint32_t member = 0; member < nodes_.shards(); ++member) nodes_.node(member).lines()->lose_nothing();
    if (!stage_.is_over()) read_all();
    if (!stage_.is_over()) settle_accounts("at the end");
    if (!stage_.is_over() && stage_.has_few_words()) count_words();
    if (!stage_.is_over()) die_once_more();
    if (!stage_.is_over()) settle_accounts("after a last restart");
    if (!stage_.is_over() && stage_.has_few_words()) count_words();
    judge();
    return told();
  }

 private:
  template <typename Done>
  void run_until(const char* otherwise, const Done& done) {
    if (stage_.is_over()) return;
    if (!world_.run_until([&] { return stage_.is_over() || done(); })) stage_.complain(otherwise);
  }

  [[nodiscard]] uint64_t away_max_ns() const noexcept {
    if (run_.is_very_long()) return 2'500 * kMillisecond_ns;
    return run_.is_long() ? 60 * kMillisecond_ns : kMillisecond_ns;
  }

  void make_nodes() {
    const uint32_t count = run_.seed % 4 < 2 ? 2 : 3;
    for (uint32_t member = 0; member < count; ++member) {
      hosts_.push_back(&world_.add_host(TransactionStage::shard_name(member)));
      // Where entries expire no clock is set, and no two are the same.
      const uint64_t error_ns = world_.prng().below(2 * kWallError_ns);
      hosts_.back()->step_wall_clock_ns(static_cast<int64_t>(error_ns) - static_cast<int64_t>(kWallError_ns));
    }
    servers_.resize(count);
    for (uint32_t member = 0; member < count; ++member) {
      NodeProcess::Options options{.member = member,
                                   .mutation = run_.mutation,
                                   .complain = [this](const std::string& wrong) { stage_.complain(wrong); }};
      if (run_.has_few_words()) options.words_far = kFewWords;
      NodeProcess& node = nodes_.add(world_, *hosts_[member], options);
      node.add(keepers_.emplace_back(world_, *hosts_[member], keeper_options(node)));
      hosts_[member]->on_restart([this, member](sim::Host& host) {
        servers_[member] = nullptr;
        nodes_.node(member).ask_through(nullptr);
        world_.spawn(host, start(member, world_.prng().below(30'000)));
      });
      hosts_[member]->allow_faults(true);
      world_.spawn(*hosts_[member], start(member, 0));
    }
    stage_.hash_seed = mix(run_.seed);
  }

  // Each hashes in its own way.
  [[nodiscard]] Keeper::Options keeper_options(NodeProcess& node) const {
    Keeper::Options options{.seed = mix(run_.seed) + node.member(),
                            .chunks = 8,
                            .chunks_max = 14,
                            .mutation = run_.mutation,
                            .evictions = &evictions_,
                            .process = &node};
    if (!stage_.evicts()) return options;
    options.chunks = options.chunks_max = 4;
    options.eviction =
        run_.seed % 2 == 0 ? kv::EvictionPolicy::kLeastRecentlyUsed : kv::EvictionPolicy::kLeastOftenUsed;
    return options;
  }

  // In a task, so that it may be killed while it recovers; and some are, behind any store of it.
  [[nodiscard]] runtime::Task<> start(uint32_t member, uint64_t after_ns) {
    sim::Host& host = *hosts_[member];
    NodeProcess& node = nodes_.node(member);
    if (after_ns != 0) co_await host.shard().sleep_for(after_ns);
    const NodeLines::Options lines{.self = member,
                                   .members = static_cast<uint32_t>(hosts_.size()),
                                   .mutation = run_.mutation,
                                   .is_lossy = !is_calm_,
                                   .seed = world_.prng().next()};
    node.ask_through(&host.emplace<NodeLines>(host, lines, lines_));
    ServerProcess& server = host.emplace<ServerProcess>(host, node.keeper(0), tally_);
    if (!server.damage().empty()) stage_.complain(server.damage());
    servers_[member] = &server;
    adopted_ += after_ns != 0 ? server.parts().count() : 0;
    if (after_ns == 0 || is_calm_ || !world_.prng().chance(kKilledRecoveries)) co_return;
    ++stage_.outcome.recoveries_killed;
    world_.crash(host);
  }
  [[nodiscard]] bool are_up() const {
    const auto is_up = [](const sim::Host* host) { return host->alive(); };
    return std::ranges::all_of(hosts_, is_up) && std::ranges::count(servers_, nullptr) == 0;
  }

  void add_client(const std::string& name, double stall_chance) {
    sim::Host& host = world_.add_host(name);
    clients_.push_back(&host);
    const auto begin = [this, stall_chance](sim::Host& its) {
      fabric::Domain& domain = its.emplace<WireTap>(its.domain(), stage_, its);
      static_cast<void>(its.emplace<fabric::Dispatcher>(domain, its.shard()));
      for (int i = 0; i < 2; ++i) {
        const Transactor::Options options{.name = fmt::format("c{}", stage_.clients_made++),
                                          .domain = &domain,
                                          .stall_chance = stall_chance};
        Transactor& one = its.emplace<Transactor>(stage_, its, options);
        world_.spawn(its, one.stay_connected());
        world_.spawn(its, one.work());
      }
    };
    host.on_restart(begin);
    begin(host);
  }

  void add_meddler() {
    sim::Host& host = world_.add_host("meddler");
    static_cast<void>(host.emplace<fabric::Dispatcher>(host.domain(), host.shard()));
    Meddler& one = host.emplace<Meddler>(stage_, nodes_, host);
    world_.spawn(host, one.stay_connected());
    world_.spawn(host, one.work());
  }

  void add_helper(const char* name, runtime::Task<> (Transactor::*work)()) {
    sim::Host& host = world_.add_host(name);
    static_cast<void>(host.emplace<fabric::Dispatcher>(host.domain(), host.shard()));
    Transactor& one =
        host.emplace<Transactor>(stage_, host, Transactor::Options{.name = name, .domain = &host.domain()});
    world_.spawn(host, one.stay_connected());
    world_.spawn(host, (one.*work)());
  }

  // An eviction is an erasure of the version that went, from its decision until all see it.
  [[nodiscard]] size_t begin_eviction(const std::string& key, uint64_t version) {
    ++stage_.outcome.evicted;
    if (key.starts_with(TransactionStage::kFill)) return SIZE_MAX;
    ++stage_.outcome.evicted_judged;
    serialisability::Recorder& recorder = stage_.recorder;
    const size_t record = recorder.begin(recorder.client(TransactionStage::kEvictor), stage_.now_ns());
    recorder.add(record, {.kind = serialisability::Kind::kErase,
                          .key = recorder.key(key),
                          .found = serialisability::Found::kPresent,
                          .found_version = version});
    return record;
  }
  void end_eviction(size_t record) {
    if (record == SIZE_MAX) return;
    stage_.recorder.end(
        record,
        {.outcome = serialisability::Outcome::kCommitted, .is_validated = false, .now_ns = stage_.now_ns()});
  }

  // Another client, at the same machine.
  void bring_back_the_dead() {
    world_.after(1 + world_.prng().below(400'000), [this] {
      if (is_calm_) return;
      for (uint32_t member = 0; member < nodes_.shards(); ++member) note_away(member);
      for (sim::Host* const client : clients_) {
        if (!client->alive()) world_.restart(*client);
      }
      bring_back_the_dead();
    });
  }

  // Everybody is silent: what is read now is what was written last.
  void read_all() {
    static_cast<void>(judge_.emplace<fabric::Dispatcher>(judge_.domain(), judge_.shard()));
    Transactor& one = judge_.emplace<Transactor>(
        stage_, judge_, Transactor::Options{.name = "judge", .domain = &judge_.domain()});
    world_.spawn(judge_, one.stay_connected());
    world_.spawn(judge_, one.read_all());
    run_until("the last reading never ends", [this] { return stage_.clients_at_work == 0; });
  }

  // No session, no transaction: nothing is held, and all that is left in the heaps are the tables' entries.
  void settle_accounts(const char* when) {
    if (!world_.run_until_idle()) return stage_.complain(fmt::format("{} the world never rests", when));
    for (uint32_t member = 0; member < nodes_.shards(); ++member) {
      NodeProcess& node = nodes_.node(member);
      ServerProcess& server = *servers_[member];
      const auto complain = [&](const std::string& wrong) {
        stage_.complain(fmt::format("{} node {} {}", when, member, wrong));
      };
      if (node.parts_counted() != 0) complain("counts parts of words");
      if (server.parts().count() != 0) complain(fmt::format("has {} parts", server.parts().count()));
      uint64_t record = 0;
      std::memcpy(&record, node.keeper(0).memory().owner() + kv::kFarPartsAt.value, sizeof(record));
      if (record != 0) complain("has records of far parts");
      if (const auto damage = server.table().validate()) {
        complain(fmt::format("is damaged: {} (at {})", damage->what, damage->at.value));
      }
      server.heap().reclaim();
      const Heap::Stats& heap = server.heap().stats();
      const uint64_t entries = server.table().stats().entries;
      if (heap.buffers_live == entries && heap.bytes_retired == 0) continue;
      complain(fmt::format("has {} buffers and {} retired bytes for {} entries", heap.buffers_live,
                           heap.bytes_retired, entries));
    }
  }

  // Those that were committed are kept for a minute; then all can be given.
  void count_words() {
    static_cast<void>(world_.run_for(kv::HomeWords::kKept_ns + kSecond_ns));
    WordCounter& counter = judge_.emplace<WordCounter>(stage_, judge_);
    for (uint32_t member = 0; member < nodes_.shards(); ++member) {
      world_.spawn(judge_, counter.count(member, /*is_far=*/true));
      run_until("the words are never counted", [&] { return counter.is_done(); });
      if (counter.words() == kFewWords) continue;
      stage_.complain(fmt::format("at the end node {} gives {} words", member, counter.words()));
    }
  }

  // What a recovery finds is what was there: nothing is lost, nothing was leaked.
  void die_once_more() {
    std::vector<uint64_t> entries;
    for (uint32_t member = 0; member < nodes_.shards(); ++member) {
      entries.push_back(servers_[member]->table().stats().entries);
      note_last_life(*servers_[member]);
      hosts_[member]->allow_faults(false);
      world_.crash(*hosts_[member]);
      world_.restart(*hosts_[member]);
    }
    if (!world_.run_until_idle() || !are_up()) return stage_.complain("the nodes never come back");
    for (uint32_t member = 0; member < nodes_.shards(); ++member) {
      const uint64_t found = servers_[member]->table().stats().entries;
      if (found == entries[member]) continue;
      stage_.complain(fmt::format("a last restart found {} entries in node {} that had {}", found, member,
                                  entries[member]));
    }
  }

  // For others a node may be away for so long that they do not wait for it.
  void note_away(uint32_t member) {
    if (!hosts_[member]->alive() || servers_[member] == nullptr) return;
    for (uint32_t other = 0; other < nodes_.shards(); ++other) {
      outcome_.away += servers_[member]->parts().is_away(other) ? 1 : 0;
    }
  }

  void note_last_life(ServerProcess& server) {
    const kv::TransactionService::Counts& counts = server.transactions().counts();
    stage_.outcome.overdue += counts.overdue;
    stage_.outcome.orphaned += counts.orphaned;
    outcome_.far_prepared += counts.far_prepared;
    outcome_.far_decided += counts.far_decided;
    outcome_.far_reads += server.reads_beside_far();
  }

  void judge() {
    const serialisability::History& history = stage_.recorder.history();
    const serialisability::Judgement judgement = serialisability::check(history);
    if (judgement.is_good()) return;
    const serialisability::Anomaly& anomaly = *judgement.anomaly;
    stage_.complain(fmt::format("{}: {}", anomaly.name, anomaly.sentence));
    stage_.outcome.picture = draw_text(history, anomaly);
    stage_.outcome.svg = draw_svg(history, anomaly);
  }

  [[nodiscard]] NodesOutcome told() {
    TransactionOutcome& clients = stage_.outcome;
    for (const sim::Host* client : clients_) clients.deaths += client->crash_count();
    for (const sim::Host* host : hosts_) clients.crashes += host->crash_count();
    clients.transactions = stage_.recorder.history().transactions.size();
    clients.trace_hash = world_.trace_hash();
    outcome_.clients = clients;
    outcome_.lines = lines_;
    outcome_.chaos = chaos_.counts();
    outcome_.adopted = adopted_;
    outcome_.lost_calls = stage_.lost_calls;
    outcome_.lingered = stage_.lingered;
    return outcome_;
  }

  const TransactionRun run_;
  const EvictionNotes evictions_{
      .begin = [this](const std::string& key, uint64_t version) { return begin_eviction(key, version); },
      .end = [this](size_t record) { end_eviction(record); }};
  std::optional<sim::World> owned_world_;
  sim::World& world_;
  sim::Host& judge_ = world_.add_host("judge");
  KvOutcome tally_;
  LineCounts lines_;
  SeveralNodes nodes_;
  std::vector<sim::Host*> hosts_;
  std::deque<Keeper> keepers_;
  std::vector<ServerProcess*> servers_;
  uint64_t adopted_ = 0;
  NodesOutcome outcome_;
  TransactionStage stage_;
  std::vector<sim::Host*> clients_;
  bool is_calm_ = false;
  NodesChaos chaos_;

 public:
  [[nodiscard]] const KvOutcome& tally() const noexcept { return tally_; }
  // Ends all processes, so that the tally is complete.
  void end() { owned_world_.reset(); }
};

}  // namespace

void NodesOutcome::add(const NodesOutcome& other) {
  clients.add(other.clients);
  lines.looks += other.lines.looks;
  lines.demands += other.lines.demands;
  lines.gone += other.lines.gone;
  lines.lost += other.lines.lost;
  lines.reopened += other.lines.reopened;
  lines.open += other.lines.open;
  lines.happened += other.lines.happened;
  lines.never += other.lines.never;
  lines.not_gone += other.lines.not_gone;
  chaos.kills += other.chaos.kills;
  chaos.strikes += other.chaos.strikes;
  chaos.pauses += other.chaos.pauses;
  chaos.cuts += other.chaos.cuts;
  chaos.cut_off += other.chaos.cut_off;
  chaos.closed += other.chaos.closed;
  far_prepared += other.far_prepared;
  far_decided += other.far_decided;
  far_reads += other.far_reads;
  adopted += other.adopted;
  lost_calls += other.lost_calls;
  lingered += other.lingered;
  away += other.away;
}

NodesOutcome run_nodes(uint64_t seed, Mutation mutation) {
  NodesCampaign campaign(seed, mutation);
  NodesOutcome outcome = campaign.run();
  campaign.end();
  outcome.clients.splits = campaign.tally().splits;
  return outcome;
}

}  // namespace refract::campaign
