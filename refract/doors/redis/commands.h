// SPDX-License-Identifier: Apache-2.0
// The commands that Redis clients may call: a row for each, by which the door runs it, refuses it, and tells
// of it (COMMAND).
//
// Threads: that of its door.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/clock.h"
#include "refract/client/async_client.h"
#include "refract/doors/admin/blocked.h"
#include "refract/doors/admin/command_counts.h"
#include "refract/doors/admin/crew.h"
#include "refract/doors/admin/node_look.h"
#include "refract/doors/admin/pause.h"
#include "refract/doors/admin/rates.h"
#include "refract/doors/admin/slow_log.h"
#include "refract/doors/messages/board.h"
#include "refract/doors/messages/output_limits.h"
#include "refract/doors/redis/facts.h"
#include "refract/doors/redis/reply.h"
#include "refract/doors/writes/key_turns.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

class Session;
struct KeyWrite;
struct Pending;
struct Row;
struct BodyCall;
class Multi;
struct Taken;

struct DropPending {
  void operator()(Pending* command) const noexcept;
};
using OwnPending = std::unique_ptr<Pending, DropPending>;

using Words = std::span<const std::string_view>;

// What all threads have together. It outlives them.
struct Common {
  Common(Facts known, bool is_loading, int keeper_link)
      : facts(std::move(known)),
        loading(is_loading, keeper_link),
        counts(facts.threads),
        command_counts(facts.threads),
        crew(facts.threads),
        board(facts.threads) {}

  const Facts facts;
  Loading loading;
  std::atomic<uint64_t> next_id = 1;      // Of connections.
  std::atomic<uint64_t> connections = 0;  // Now.
  std::atomic<uint64_t> blocked = 0;      // Those among them whose command waits, as WAIT does.
  AllCounts counts;
  CommandCounts command_counts;
  Pause pause;
  Blocked waiting;
  Rates rates;
  SlowLog slow_log;
  Crew crew;
  Board board;
  OutputLimits output_limits;
};

// What all connections of a thread work with. All outlives them.
struct Store {
  AsyncClient* client;  // Null: there is no node to be a client of yet.
  runtime::Shard& shard;
  const Facts& facts;
  const Loading& loading;
  Counts& counts;  // Of this thread.
  Common& common;
  size_t place = 0;  // Of the thread, among all.
  NodeLook node_look = {};
  // Whether the slow log may want commands that take no time: then each is timed.
  bool times_all = false;
  // The last row that was looked for, and by which name. Null: there was none.
  const Row* last_row = nullptr;
  std::string last_name = {};
  CommandTallies* last_tallies = nullptr;
  std::vector<std::byte> value = std::vector<std::byte>(Replies::kLongBytes);  // Of the read that runs now.
  size_t reserved_bytes = 0;           // Of long words that are received, or under way.
  std::vector<OwnPending> spare = {};  // Of commands that are over: their memory is used again.
  std::vector<Session*> told = {};     // Those some of whose writes are over: Session::look_at_told().
  KeyTurns turns = KeyTurns(shard);    // To change what was read.
  // What store time is ahead of the time since boot: learn_store_time().
  uint64_t time_offset_ns = system_clock().wall_ns() - system_clock().boot_ns();
  bool knows_time = false;    // By the node's word, and not by the wall clock.
  size_t changing_bytes = 0;  // Of values that are being changed.
};

// A command that runs now, on bytes that stay for so long.
struct Call {
  Store& store;
  Session& session;
  Words words;
  Reply reply;
};

using InBody = void (*)(BodyCall& call);

// Which commands of its connection may be under way beside it.
enum class Kind : uint8_t {
  kLocal,  // It has no part in the order: it concerns the connection alone.
  kRead,   // It looks when all before have ended.
  kWrite,  // It leaves when all reads before have looked; writes before may be under way.
  kAll,    // All before have ended, and all behind wait for its end.
};

struct Row {
  std::string_view name;  // In lower letters.
  // How many words, the name included; -n: n at least.
  int arity;
  Kind kind;
  // Replies at once. False: this cannot be told at once, and nothing was done. Null: never.
  bool (*at_once)(Call& call);
  // Puts the reply into the command's. Null: at_once() always replies.
  runtime::Task<> (*as_task)(Store& store, Pending& command);
  // For COMMAND: Redis's flags, and where keys stand (0, 0, 0: nowhere).
  std::string_view flags;
  int first_key;
  int last_key;
  int key_step;
  // A connection that has not proven itself may call it.
  bool is_open = false;
  // Of a kWrite: what it asks of the owner of the second word. Null: it is none.
  const KeyWrite* write = nullptr;
  // Of these words, where it depends on them. Null: `kind`.
  Kind (*kind_of)(Words words) = nullptr;
  // Their names are "client|list". Null: there are none. A row that has some, and no handler, needs one.
  std::span<const Row> (*subcommands)() noexcept = nullptr;
  // Inside of a transaction: exec/body_commands.h. Null: it has no part in one.
  InBody in_body = nullptr;
};

[[nodiscard]] std::span<const Row> rows() noexcept;
// Of a name in letters of any case. Null: there is none.
[[nodiscard]] const Row* row_of(std::string_view name) noexcept;
// That of one of its subcommands. Null: there is none of this name.
[[nodiscard]] const Row* subrow_of(const Row& row, std::string_view name) noexcept;
// Which of both these words call. Null: none.
[[nodiscard]] const Row* row_called_by(Words words) noexcept;
// Of "client" and "client|list". Null: there is none.
[[nodiscard]] const Row* row_of_full_name(std::string_view name) noexcept;

// Whether it is told while the node is loading, too, and without one.
[[nodiscard]] bool runs_while_loading(const Row& row) noexcept;
[[nodiscard]] bool has_arity(const Row& row, size_t words) noexcept;
// In Redis's words.
[[nodiscard]] std::string unknown_command(Words words);
[[nodiscard]] std::string wrong_arity(std::string_view name);
[[nodiscard]] std::string unknown_subcommand(const Row& row, std::string_view word);

}  // namespace refract::doors::redis
