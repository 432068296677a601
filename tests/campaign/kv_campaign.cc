// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/kv_campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/campaign/kv_server.h"
#include "tests/campaign/kv_worker.h"

#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"

namespace refract::campaign {
namespace {

// Most bugs of recovery need two crashes close together, most bugs of reuse a long time without one.
bool crashes_often(const KvRun& run) {
  return run.crashes && run.seed % 4 == 0;
}

sim::WorldOptions world_options(const KvRun& run) {
  sim::WorldOptions options{.seed = run.seed};
  options.link.break_ns = 2 * kMillisecond_ns;
  options.message_bytes_max = 4096;
  options.steps_max = 2'000'000;
  options.fault_chance = crashes_often(run) ? 0.003 : 0.0002;
  return options;
}

Keeper::Options keeper_options(const KvRun& run) {
  Prng prng(mix(run.seed ^ 0x6b65));
  Keeper::Options options{.seed = run.seed, .sabotage = run.sabotage};
  // Some nodes are full most of the time, some have plenty.
  options.chunks = prng.chance(0.3) ? 8 + prng.below(8) : 30;
  options.chunks_max = options.chunks + prng.below(12);
  return options;
}

class Campaign {
 public:
  explicit Campaign(const KvRun& run)
      : run_(run),
        owned_world_(world_options(run)),
        world_(*owned_world_),
        server_(world_.add_host("server")),
        keeper_(world_, server_, keeper_options(run)),
        stage_{
            .run = run_, .world = world_, .server = server_, .keeper = keeper_, .model = {}, .outcome = {}} {
    server_.on_restart([this](sim::Host&) { start_server(); });
    start_server();
    server_.allow_faults(run_.crashes);
    for (int i = 0; i < run_.clients; ++i) add_client(i);
  }

  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;
  // What lives in the hosts uses everything else here.
  ~Campaign() { owned_world_.reset(); }

  [[nodiscard]] KvOutcome run() {
    if (run_.crashes || run_.pauses || run_.cuts) disturb();
    const auto done = [this] { return stage_.workers_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the workers never end");
    calm();
    if (!stage_.is_over()) read_all();
    if (!stage_.is_over()) settle_accounts();
    if (!stage_.is_over()) die_once_more();
    stage_.outcome.judged = stage_.model.judged();
    stage_.outcome.crashes = server_.crash_count();
    if (server_.alive()) stage_.outcome.splits += process_->table().stats().splits;
    stage_.outcome.trace_hash = world_.trace_hash();
    return stage_.outcome;
  }

 private:
  void start_server() {
    process_ = &server_.emplace<ServerProcess>(server_, keeper_, stage_.outcome);
    if (!process_->damage().empty()) stage_.complain(process_->damage());
  }

  void add_client(int number) {
    sim::Host& host = world_.add_host(fmt::format("client{}", number));
    clients_.push_back(&host);
    static_cast<void>(host.emplace<fabric::Dispatcher>(host.domain(), host.shard()));
    for (const char* part : {"a", "b"}) {
      Worker& worker = host.emplace<Worker>(
          stage_, host,
          Worker::Options{.name = fmt::format("c{}{}", number, part),
                          .stall_chance = number == 0 ? run_.stall_chance : run_.stall_chance / 20,
                          .blind = run_.sabotage == KvRun::Sabotage::kBlindReaders});
      ++stage_.workers_left;
      world_.spawn(host, worker.work());
    }
  }

  [[nodiscard]] sim::Host& any_client() { return *clients_[world_.prng().below(clients_.size())]; }

  // Now and then does some harm, most of which soon ends, until the workers have done their work.
  void disturb() {
    world_.after(world_.prng().below(200'000), [this] {
      if (calm_) return;
      mend_some();
      if (server_.alive()) harm(world_.prng().below(1'000));
      disturb();
    });
  }

  void mend_some() {
    constexpr double kChance = 0.4;
    if (!server_.alive() && world_.prng().chance(kChance)) world_.restart(server_);
    if (server_.paused() && world_.prng().chance(kChance)) world_.resume(server_);
    for (sim::Host* client : clients_) {
      if (client->paused() && world_.prng().chance(kChance)) world_.resume(*client);
    }
    for (size_t i = cut_.size(); i-- > 0;) {
      if (!world_.prng().chance(kChance)) continue;
      world_.heal(server_, *cut_[i]);
      cut_.erase(cut_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void harm(uint64_t draw) {
    sim::Host& client = any_client();
    if (draw < 50) {
      if (run_.crashes && (draw < 5 || crashes_often(run_))) world_.crash(server_);
    } else if (draw < 130) {
      if (run_.pauses) world_.pause(draw < 80 ? server_ : client);
    } else if (draw < 170) {
      if (!run_.cuts || std::ranges::find(cut_, &client) != cut_.end()) return;
      world_.cut(server_, client);
      cut_.push_back(&client);
    } else if (draw < 270) {
      sim::Host& host = draw < 210 ? server_ : client;
      host.slow_down(world_.prng().chance(0.7) ? 1'000 : 50'000);
    } else if (draw < 350) {
      step_wall_clock(draw < 310 ? server_ : client);
    }
  }

  // Anywhere within the error that the model allows.
  void step_wall_clock(sim::Host& host) {
    const auto error =
        static_cast<int64_t>(world_.prng().below(2 * kWallError_ns)) - static_cast<int64_t>(kWallError_ns);
    const int64_t before = static_cast<int64_t>(host.clock().wall_ns() - server_true_wall_ns());
    host.step_wall_clock_ns(error - before);
  }
  // What a wall clock shows that was never stepped.
  [[nodiscard]] uint64_t server_true_wall_ns() { return judge_.clock().wall_ns(); }

  void calm() {
    calm_ = true;
    server_.allow_faults(false);
    for (sim::Host* client : cut_) world_.heal(server_, *client);
    cut_.clear();
    for (sim::Host* client : clients_) world_.resume(*client);
    world_.resume(server_);
    server_.slow_down(1'000);
    if (!server_.alive()) world_.restart(server_);
  }

  // Everybody is silent: what is read now is what was written last.
  void read_all() {
    static_cast<void>(judge_.emplace<fabric::Dispatcher>(judge_.domain(), judge_.shard()));
    Worker& worker = judge_.emplace<Worker>(stage_, judge_, Worker::Options{.name = "judge"});
    stage_.workers_left = 1;
    world_.spawn(judge_, worker.read_all());
    const auto done = [this] { return stage_.workers_left == 0 || stage_.is_over(); };
    if (!world_.run_until(done)) stage_.complain("the last reading never ends");
  }

  // No session, no view: all that is left in the heap are the table's entries.
  void settle_accounts() {
    if (!world_.run_until_idle()) return stage_.complain("the world never rests");
    if (const auto damage = process_->table().validate()) {
      stage_.complain(fmt::format("at the end: {} (at {})", damage->what, damage->at.value));
    }
    process_->heap().reclaim();
    const Heap::Stats& heap = process_->heap().stats();
    const kv::Table::Stats& table = process_->table().stats();
    if (heap.buffers_live != table.entries || heap.bytes_retired != 0) {
      stage_.complain(fmt::format("at the end the heap has {} buffers and {} retired bytes for {} entries",
                                  heap.buffers_live, heap.bytes_retired, table.entries));
    }
  }

  // What a recovery finds is what was there: nothing is lost, nothing was leaked.
  void die_once_more() {
    const Heap::Stats heap = process_->heap().stats();
    const kv::Table::Stats table = process_->table().stats();
    world_.crash(server_);
    world_.restart(server_);
    if (stage_.is_over()) return;
    const Heap::Stats& heap_after = process_->heap().stats();
    if (process_->table().stats().entries != table.entries || heap_after.bytes_live != heap.bytes_live ||
        process_->table().stats().overflow_lines != table.overflow_lines) {
      stage_.complain(fmt::format("{} entries and {} bytes became {} and {} in the last recovery",
                                  table.entries, heap.bytes_live, process_->table().stats().entries,
                                  heap_after.bytes_live));
    }
  }

  const KvRun run_;
  std::optional<sim::World> owned_world_;
  sim::World& world_;
  sim::Host& server_;
  sim::Host& judge_ = world_.add_host("judge");
  Keeper keeper_;
  Stage stage_;
  ServerProcess* process_ = nullptr;
  std::vector<sim::Host*> clients_;
  std::vector<sim::Host*> cut_;
  bool calm_ = false;
};

}  // namespace

void KvOutcome::add(const KvOutcome& other) {
  judged += other.judged;
  direct += other.direct;
  stalled += other.stalled;
  overtaken += other.overtaken;
  views += other.views;
  views_over_crash += other.views_over_crash;
  listed += other.listed;
  splits += other.splits;
  lines_linked += other.lines_linked;
  lines_unlinked += other.lines_unlinked;
  crashes += other.crashes;
  reconnects += other.reconnects;
  regions += other.regions;
  expired += other.expired;
  no_space += other.no_space;
  unknown += other.unknown;
}

KvOutcome run_kv(const KvRun& run) {
  Campaign campaign(run);
  return campaign.run();
}

}  // namespace refract::campaign
