// SPDX-License-Identifier: Apache-2.0
// A client that writes and reads what all others write, and has everything written down.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/campaign/kv_server.h"
#include "tests/campaign/rivals.h"
#include "tests/campaign/watched_memory.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/testing/linearizability/history.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/calls/lender.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/chains/chain_client.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/remote/remote_client.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::campaign {

// What all rivals of a run share.
struct RivalStage {
  const RivalRun& run;
  sim::World& world;
  struct Node {
    std::deque<Keeper> shards;
    uint64_t hash_seed = 0;
  };
  std::deque<Node> nodes;  // One for each life; the last one's is now.
  linearizability::Recorder recorder;
  RivalOutcome outcome;
  uint64_t keys = 12;  // How many there are; a few of them are hot.
  uint64_t values = 0;
  int rivals_left = 0;
  std::deque<ModelLog> logs;  // One for each shard, where changes are written to one.
  // What crashes of the host took back, each with the moment of the crash.
  struct TakenBack {
    ModelLog::Lost lost;
    uint64_t crashed = 0;
  };
  std::vector<TakenBack> taken_back;
  uint64_t reborn = 0;                     // The moment when the host died last; 0: it has not.
  std::vector<size_t> refused_by_reading;  // Records of writes that chains refused, which read to find out.

  // The one that evicts, among the clients of the history.
  static constexpr std::string_view kEvictor = "eviction";

  [[nodiscard]] bool is_durable() const noexcept { return run.durability != Durability::kNone; }
  // Some messages of identified writes come twice.
  [[nodiscard]] bool sends_twice() const noexcept { return run.seed % 5 == 2; }
  // Wall clocks are stepped by hours, so that it cannot be said when an entry expires; none does.
  [[nodiscard]] bool has_wild_clocks() const noexcept { return run.seed % 11 == 3; }
  // Under which a key stands in the history. What is lost on purpose has another name from then on.
  [[nodiscard]] std::string name_of(size_t life, const std::string& key) const;
  [[nodiscard]] size_t life() const noexcept { return nodes.size(); }
  [[nodiscard]] static std::string shard_name(size_t index);
  [[nodiscard]] uint32_t shard_of(size_t life, const std::string& key) const noexcept;
  // The first complaint stays, and ends the run.
  void complain(const std::string& wrong);
  [[nodiscard]] bool is_over() const noexcept { return !outcome.wrong.empty(); }
  [[nodiscard]] uint64_t now_ns() const noexcept { return world.now_ns(); }
};

// Lives in its host (Host::emplace), whose dispatcher stands before it.
class Rival {
 public:
  struct Options {
    std::string name;
    fabric::Domain* domain = nullptr;  // Of the host; its dispatcher stands before the rival.
    kv::Lender* lender = nullptr;      // Over it. Null: large values travel in pieces.
    double stall_chance = 0;
  };
  Rival(RivalStage& stage, sim::Host& host, const Options& options);
  Rival(const Rival&) = delete;
  Rival& operator=(const Rival&) = delete;
  ~Rival();

  [[nodiscard]] runtime::Task<> work();
  // Reads all keys of this life on both paths.
  [[nodiscard]] runtime::Task<> read_all();

 private:
  using Kind = linearizability::Kind;
  using Outcome = linearizability::Outcome;

  // A time of day that has stopped: nothing ever expires.
  class StoppedClock final : public Clock {
   public:
    [[nodiscard]] uint64_t now_ns() const noexcept override { return 0; }
    [[nodiscard]] uint64_t wall_ns() const noexcept override { return 0; }
  };
  struct Put {
    std::string key;
    std::string value;
    kv::RpcPutOptions options;
    size_t record = 0;
  };

  // A shard, on both paths.
  struct Reach {
    size_t index = 0;
    PinWriter pins;
    std::unique_ptr<sim::SeededReader> loads;
    WatchedMemory::Looks looks;
    std::optional<WatchedMemory> memory;
    std::optional<kv::DirectReader<WatchedMemory>> reader;
    size_t life = 0;  // When the session began to open: in between the node may have been made again.
    std::unique_ptr<rpc::Session> session;
    std::unique_ptr<kv::RpcClient> client;
    std::unique_ptr<kv::ChainClient> chains;  // Over client, likewise below.
    std::unique_ptr<kv::RemoteClient> remote;
    bool was_connected = false;
  };

  [[nodiscard]] runtime::Task<> step();
  // To all shards, or not at all.
  [[nodiscard]] runtime::Task<bool> connect();
  [[nodiscard]] runtime::Task<bool> connect_to(Reach& reach);
  [[nodiscard]] runtime::Task<> disconnect();
  void drop_session(Reach& reach);
  [[nodiscard]] kv::RemoteClientOptions remote_options() const;
  [[nodiscard]] Reach& reach_of(const std::string& key) { return reaches_[stage_.shard_of(life_, key)]; }
  void begin_life();
  void map(Reach& reach);
  void finish();

  [[nodiscard]] std::string any_key();
  [[nodiscard]] size_t draw_bytes();
  [[nodiscard]] kv::RpcPutOptions draw_options(const std::string& key);

  [[nodiscard]] linearizability::Operation call_of(Kind kind, const std::string& key);
  [[nodiscard]] Put begin_put(const std::string& key, size_t bytes, const kv::RpcPutOptions& options);
  void end_put(const Put& put, const Result<uint64_t>& result);
  void end_write(size_t record, const std::string& key, const Result<uint64_t>& result);
  struct Read {
    Code code = Code::kOk;
    uint64_t version = 0;
    const std::string* value = nullptr;  // Null: it was not looked at.
  };
  void end_read(size_t record, const std::string& key, const Read& read);
  // The number in a value that is whole; 0, and a complaint, in one that no client wrote like that.
  [[nodiscard]] uint64_t number_in(const std::string& key, const std::string& value);

  // Writes that are sent again under their identity while their fate is unknown.
  [[nodiscard]] kv::RpcAttempt first_attempt(bool is_conditional);
  [[nodiscard]] bool may_send(const kv::RpcAttempt& attempt, int times, const Result<uint64_t>& result) const;
  [[nodiscard]] kv::RpcAttempt attempt_now(const kv::RpcAttempt& attempt, int times);
  // Whether nothing can be asked any more of the node that lived then.
  [[nodiscard]] bool is_gone(size_t life) const noexcept;
  [[nodiscard]] Result<uint64_t> what_is_known(const Result<uint64_t>& answer, int times);

  // Which of the paths over the network an operation takes; only reads have the last.
  enum class Path : uint8_t { kCalls, kChains, kRemote };
  [[nodiscard]] bool goes_by_chains() noexcept { return prng_.chance(0.5); }
  [[nodiscard]] Path draw_path() noexcept { return static_cast<Path>(prng_.below(3)); }
  [[nodiscard]] runtime::Task<> put();
  [[nodiscard]] runtime::Task<> doubt(std::string key);
  [[nodiscard]] runtime::Task<> put_many();
  [[nodiscard]] runtime::Task<> put_together();
  [[nodiscard]] runtime::Task<> erase();
  [[nodiscard]] runtime::Task<> get(std::string key);
  [[nodiscard]] runtime::Task<> get_many();
  [[nodiscard]] runtime::Task<> exists(std::string key);
  [[nodiscard]] runtime::Task<> scan();
  [[nodiscard]] runtime::Task<> scan(Reach& reach);
  void list(std::span<const kv::RpcClient::ScannedKey> keys, uint64_t began, uint64_t began_ns);
  void read_directly(const std::string& key, bool with_value);

  RivalStage& stage_;
  sim::Host& host_;
  Options options_;
  Prng prng_;
  uint32_t client_number_;
  uint64_t identity_;
  uint64_t sequence_ = 0;
  size_t life_ = 0;
  std::map<std::string, uint64_t> versions_;  // Last seen.
  StoppedClock stopped_clock_;
  std::deque<Reach> reaches_;  // One for each shard.
  bool finished_ = false;
};

}  // namespace refract::campaign
