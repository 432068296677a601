// SPDX-License-Identifier: Apache-2.0
// A client of a campaign: one session, one direct reader, one page of pins, and a stream of operations on
// keys of its own; it reads those of all.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/campaign/kv_server.h"
#include "tests/campaign/model.h"
#include "tests/campaign/watched_memory.h"

#include "refract/base/prng.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/task_team.h"
#include "refract/kv/chains/chain_client.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/memory/pins.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::campaign {

// What all parts of a run share.
struct Stage {
  const KvRun& run;
  sim::World& world;
  sim::Host& server;
  Keeper& keeper;
  Model model;
  KvOutcome outcome;
  int workers_left = 0;
  uint64_t crowded_keys = 0;  // Made so far.

  // The first complaint stays, and ends the run.
  void complain(const Model::Wrong& wrong);
  [[nodiscard]] bool is_over() const noexcept { return !outcome.wrong.empty(); }
  [[nodiscard]] uint64_t now_ns() const noexcept { return world.now_ns(); }
};

// The code of a call that says nothing about the key: the network's, or a refusal.
[[nodiscard]] bool is_no_answer(Code code) noexcept;

// Lives in its host (Host::emplace), whose dispatcher stands before it.
class Worker {
 public:
  struct Options {
    std::string name;
    double stall_chance = 0;
    Mutation mutation = Mutation::kNone;
  };
  Worker(Stage& stage, sim::Host& host, const Options& options);

  // The whole life of a worker.
  [[nodiscard]] runtime::Task<> work();
  // Reads all keys on both paths, once all writers have ended.
  [[nodiscard]] runtime::Task<> read_all();

 private:
  struct View {
    std::string key;
    int pin = -1;
    Offset at;
    std::string bytes;
    uint64_t crashes = 0;  // Of the server when the view was taken.
  };
  struct Write {
    std::string key;
    uint64_t number = 0;
    uint64_t begun_ns = 0;
    uint64_t version_before = 0;  // The highest of all.
    kv::RpcPutOptions options;    // For an erase, its if_version.
    bool is_erase = false;
  };

  [[nodiscard]] runtime::Task<> step();
  [[nodiscard]] runtime::Task<bool> connect();
  [[nodiscard]] runtime::Task<> disconnect();
  void map();

  [[nodiscard]] std::string own_key();
  [[nodiscard]] std::string crowded_key();
  [[nodiscard]] std::string any_key();
  [[nodiscard]] size_t draw_bytes();
  [[nodiscard]] kv::RpcPutOptions draw_options(const std::string& key);

  // kv_lanes.cc
  [[nodiscard]] runtime::Task<> work_in_lanes();
  [[nodiscard]] runtime::Task<> work_in_lane(std::string key, uint64_t& operations, kv::TaskTeam& team);
  [[nodiscard]] runtime::Task<> put_by_attempt(const std::string& key);
  [[nodiscard]] runtime::Task<> get_by_attempt(std::string key);

  [[nodiscard]] runtime::Task<> put_many();
  [[nodiscard]] runtime::Task<> put();
  [[nodiscard]] runtime::Task<> erase();
  void end_write(const Write& write, const Result<uint64_t>& result);
  void judge_condition(const Write& write, const Result<uint64_t>& result);

  // kv_batches.cc
  struct Batch;
  [[nodiscard]] runtime::Task<> change();
  [[nodiscard]] Batch draw_batch();
  void add_condition(Batch& batch, const std::string& key);
  void end_batch(Batch& batch, Code code);
  [[nodiscard]] std::string fault_of(const Batch& batch, Code code) const;

  // False: the direct path gave up, the server must be asked.
  bool read_directly(const std::string& key);
  [[nodiscard]] runtime::Task<> get(std::string key);
  [[nodiscard]] runtime::Task<> exists(std::string key);
  [[nodiscard]] runtime::Task<> get_many();
  void judge_got(const std::string& key, const Model::Moment& before, const Result<kv::Got>& got,
                 const std::string* value);

  struct Listing {
    std::map<std::string, Model::Moment> before;
    std::map<std::string, bool> seen;
  };
  [[nodiscard]] Listing begin_listing() const;
  void list(Listing& listing, const std::string& key, uint64_t version, uint64_t value_bytes);
  void end_listing(const Listing& listing);
  [[nodiscard]] runtime::Task<> scan();
  void scan_directly();

  void take_view();
  void end_view();
  [[nodiscard]] std::string bytes_at(Offset at, size_t bytes);

  Stage& stage_;
  sim::Host& host_;
  Options options_;
  Prng prng_;
  std::vector<std::string> keys_;
  uint64_t keys_made_ = 0;
  PinWriter pins_;
  std::unique_ptr<sim::SeededReader> loads_;
  WatchedMemory::Looks looks_;
  std::optional<WatchedMemory> memory_;
  std::optional<kv::DirectReader<WatchedMemory>> reader_;
  std::unique_ptr<rpc::Session> session_;
  std::unique_ptr<kv::RpcClient> client_;
  std::unique_ptr<kv::ChainClient> chains_;  // Over client_.
  std::vector<View> views_;
  bool was_connected_ = false;
};

}  // namespace refract::campaign
