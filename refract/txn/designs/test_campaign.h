// SPDX-License-Identifier: Apache-2.0
// A small world of servers and clients of one design, whose transactions a checker judges: the same few keys,
// a network that delays and tears, clocks that agree or do not, clients that are killed or taken for dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/serialisability/checker.h"
#include "refract/base/testing/serialisability/history.h"
#include "refract/txn/designs/test_sim_store.h"

namespace refract::txn::designs {

struct CampaignOptions {
  const Design* design = nullptr;
  uint64_t seed = 1;
  MakeClient make_client = {};    // Null: the design's.
  uint64_t clocks_differ_ns = 0;  // At most, between two clients.
  // The first client, whose clock is ahead, writes one key; the second one, whose clock is behind, reads
  // another; the others read both and write the latter. Else each does anything, by any clock.
  bool has_roles = false;
  bool clients_die = false;
  bool clients_are_suspected = false;  // Servers end those that are only slow.
  bool steps = false;                  // SimServer's.
};

struct CampaignTally {
  uint64_t committed = 0;
  uint64_t read_only = 0;
  uint64_t conflicts = 0;
  uint64_t unknown = 0;
  uint64_t killed = 0;
  uint64_t ended = 0;  // Clients, by servers.
  uint64_t freed = 0;
  uint64_t most_open_runs = 0;
};

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options);

  // What went wrong that no checker needs to say: empty, if nothing.
  [[nodiscard]] std::string run();
  [[nodiscard]] const serialisability::History& history() const noexcept { return recorder_.history(); }
  // Transactions that did not end, each written key by itself.
  [[nodiscard]] serialisability::History halved() const;
  void add_to(CampaignTally& tally) const;

 private:
  static constexpr size_t kServers = 2;
  static constexpr int kClients = 4;
  static constexpr int kTransactions = 30;  // Of each client.
  static constexpr size_t kKeys = 4;

  void load();
  void start(sim::Host& host, int index);
  void kill(sim::Host& host);
  void kill_somebody();
  [[nodiscard]] bool is_quiet() const;
  void check_the_end();
  [[nodiscard]] static std::string key_of(size_t index);
  static runtime::Task<> work(Campaign& campaign, sim::Host& host, SimClient& process, int index);
  static runtime::Task<> touch_all(Campaign& campaign, SimClient& process);
  static runtime::Task<> keep_house(Campaign& campaign, SimServer& server);
  // What a transaction is to do.
  struct Plan {
    std::vector<size_t> keys;
    size_t written = 0;  // So many of them, from the first on.
    size_t at_once = 0;  // So many are read side by side.
  };
  [[nodiscard]] Plan draw_plan(int index);
  // False: the client is of no use any more.
  [[nodiscard]] runtime::Task<bool> transact(Client& client, sim::Host& host, uint32_t recorded,
                                             const Plan& plan);
  [[nodiscard]] runtime::Task<Code> read(Transaction& transaction, size_t record,
                                         const std::vector<size_t>& keys);
  void write(Transaction& transaction, size_t record, size_t key);
  void note(const Transaction& transaction, size_t record, Code code);
  void end(size_t record, serialisability::Outcome outcome);

  CampaignOptions options_;
  Prng prng_;
  sim::World world_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<sim::Host*> hosts_;
  std::vector<int> done_;  // Transactions of each client.
  sim::Host& last_host_;   // Of the one that looks at everything at the end.
  serialisability::Recorder recorder_;
  CampaignTally tally_;
  uint16_t numbers_ = 0;
  int64_t values_ = 0;
  int left_ = kClients;
  bool is_touched_ = false;
  std::string wrong_;
};

}  // namespace refract::txn::designs
