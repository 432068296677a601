// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server/server.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "refract/base/boot_id.h"
#include "refract/base/log.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/reception.h"
#include "refract/kv/owner/parts/decisions.h"
#include "refract/memory/space.h"
#include "refract/memory/writer.h"
#include "refract/node/durable/fill_together.h"
#include "refract/node/durable/log_stands.h"
#include "refract/runtime/shard_thread.h"

namespace refract::node {
namespace {

constexpr Offset kFillStateAt{offsetof(SpaceHeader, fill_state)};

void settle_in(pid_t keeper) {
  // Die with the keeper: without it no client could attach, and the memory would have two owners after a new
  // start.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(kExitFailed);
  prctl(PR_SET_NAME, "refractd");
  prctl(PR_SET_DUMPABLE, 0);
  // Ctrl-C reaches the whole group; the keeper decides when the server ends.
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
}

class Server {
 public:
  explicit Server(ServerBirth birth)
      : config_(birth.config),
        listener_(birth.listener),
        secret_(birth.secret),
        cluster_secret_(birth.cluster_secret) {
    share_decisions(birth.shards);
    for (ShardBirth& shard : birth.shards) {
      facts_.push_back(facts_of(shard));
      shards_.push_back(std::make_unique<ShardServer>(std::move(shard)));
    }
  }

  [[nodiscard]] int run() {
    if (listener_ >= 0) {
      if (auto opened = open_tcp(); !opened) return fail_with(opened.error());
    }
    for (uint32_t index = 1; index < shards_.size(); ++index) {
      auto thread = runtime::ShardThread::start({.name = fmt::format("refractd/{}", index)},
                                                [this, index] { return run_shard(index); });
      if (!thread) return fail_with(thread.error());
      threads_.push_back(std::move(*thread));
    }
    return run_shard(0);
  }

 private:
  void share_decisions(std::vector<ShardBirth>& shards) {
    std::vector<kv::Decisions::Home> homes;
    for (const ShardBirth& shard : shards) {
      if (shard.plan.index >= config_.server_shards) continue;
      homes.push_back({.space = shard.space.addresses().base()});
    }
    decisions_ = std::make_unique<kv::Decisions>(homes);
    if (shards.front().data != nullptr && !are_filled(homes)) fill_together(homes);
    // One log alone has no other to end together with.
    if (shards.front().data != nullptr && (config_.server_shards > 1 || config_.kv_placement != 0)) {
      stands_ = std::make_unique<LogStands>(config_.server_shards, log_durability(config_));
    }
    for (ShardBirth& shard : shards) {
      if (shard.plan.index >= config_.server_shards) continue;
      shard.decisions = decisions_.get();
      shard.together = together_.get();
      shard.stands = stands_.get();
    }
  }
  [[nodiscard]] static bool are_filled(const std::vector<kv::Decisions::Home>& homes) {
    return std::ranges::all_of(homes, [](const kv::Decisions::Home& home) {
      return Writer(home.space).load(kFillStateAt) == kFillComplete;
    });
  }
  // Where one memory is new or half filled, all are filled: each shard's log has what others ask for.
  void fill_together(const std::vector<kv::Decisions::Home>& homes) {
    together_ = std::make_unique<FillTogether>(config_.server_shards);
    for (const kv::Decisions::Home& home : homes) {
      Writer writer(home.space);
      if (writer.load(kFillStateAt) == kFillComplete) writer.publish(kFillStateAt, kFillBegun);
    }
  }

  [[nodiscard]] fabric::tcp::NodeFacts facts_of(const ShardBirth& shard) const {
    const fabric::shm::NodePage& page = shard.meeting.node_page();
    return {.identity = {page.identity[0], page.identity[1]},
            .incarnation = fabric::shm::incarnation(page),
            .hash_seed = reinterpret_cast<const SpaceHeader*>(shard.space.addresses().base())->hash_seed,
            .shard_index = shard.plan.index,
            .shard_count = config_.server_shards,
            .copies = config_.kv_copies,
            .is_spread = config_.kv_placement != 0,
            .boot_id = host_boot_id().value_or(BootId{}),
            .socket_path = shard.meeting.path()};
  }

  // Before any thread starts: the reception hands connections to all of them from its first turn on.
  [[nodiscard]] Reported<> open_tcp() {
    for (const auto& shard : shards_) {
      auto domain = fabric::tcp::ServerDomain::create();
      if (!domain) return report(domain.error());
      tcp_domains_.push_back(domain->get());
      shard->serve_tcp(std::move(*domain));
    }
    auto reception = fabric::tcp::Reception::create(shards_[0]->shard(),
                                                    {.listen_fd = listener_,
                                                     .secret = secret_,
                                                     .cluster_secret = cluster_secret_,
                                                     .shards = tcp_domains_,
                                                     .facts = [this](uint32_t k) { return facts_[k]; },
                                                     .no_further_shard = why_no_objects(),
                                                     .connections_max = config_.clients_max,
                                                     .connections_of_nodes = kConnectionsOfNodes});
    if (!reception) return report(reception.error());
    reception_ = std::move(*reception);
    return {};
  }

  // A client names the shard of objects by the number of those of keys, which is what it knows.
  [[nodiscard]] Report why_no_objects() const {
    if (shards_.size() > config_.server_shards) return {};
    return {Code::kUnsupported, "this node has no objects",
            "start it with room for them: --objects-limit 1GiB"};
  }

  int run_shard(uint32_t index) {
    if (config_.server_cpu >= 0) {
      const auto bound = runtime::bind_this_thread(static_cast<uint32_t>(config_.server_cpu) + index);
      if (!bound) log_warn("{}", bound.error().what);
    }
    if (const int code = shards_[index]->open(); code != 0) return code;
    return shards_[index]->run();
  }

  const NodeConfig& config_;
  int listener_;
  const fabric::tcp::Secret* secret_;
  const fabric::tcp::Secret* cluster_secret_;
  std::unique_ptr<kv::Decisions> decisions_;
  std::unique_ptr<FillTogether> together_;  // Null: no memory is new, or there are no logs.
  std::unique_ptr<LogStands> stands_;       // Null: one log has all, or there is none.
  std::vector<fabric::tcp::NodeFacts> facts_;
  std::vector<std::unique_ptr<ShardServer>> shards_;
  std::vector<fabric::tcp::ServerDomain*> tcp_domains_;  // The shards' own.
  std::unique_ptr<fabric::tcp::Reception> reception_;
  std::vector<std::unique_ptr<runtime::ShardThread>> threads_;
};

}  // namespace

int run_server(ServerBirth birth) {
  settle_in(birth.keeper);
  // Never destroyed: the process ends with _exit, and everything it leaves is what a crash would leave.
  auto* server = new Server(std::move(birth));
  return server->run();
}

}  // namespace refract::node
