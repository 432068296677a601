// SPDX-License-Identifier: Apache-2.0
#include "refract/client/async_client.h"

#include <array>
#include <optional>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/answers.h"
#include "refract/client/shard_cursor.h"
#include "refract/kv/rpc_client_attempts.h"
#include "refract/kv/task_team.h"

namespace refract::client {

using runtime::Task;

namespace {

constexpr uint64_t kReadsPerLook = 256;
// Many keys are sorted by shard once, and once more where another node with other shards was found meanwhile.
constexpr int kRounds = 2;
bool is_misplaced(Code code) noexcept {
  return code == Code::kWrongShard || code == Code::kUnavailable;
}
// How many keys of a multi_get have their cache misses under way at once.
constexpr size_t kGroup = 16;

// Coroutines of their own, because a lambda that captures must not be one.

Task<Code> ask_get(Connection& connection, Bytes key, kv::ValueSink& sink, Got& got, uint64_t deadline_ns) {
  if (kv::ChainClient* chains = connection.chains(); chains != nullptr) {
    const Result<kv::Got> answer = co_await chains->get(key, sink, deadline_ns);
    co_return take(answer, got);
  }
  const Result<kv::Got> answer = co_await connection.rpc().get(key, sink, deadline_ns);
  co_return take(answer, got);
}

Task<Code> ask_exists(Connection& connection, Bytes key, Got& got, uint64_t deadline_ns) {
  if (kv::ChainClient* chains = connection.chains(); chains != nullptr) {
    const Result<kv::Got> answer = co_await chains->exists(key, deadline_ns);
    co_return take(answer, got);
  }
  const Result<kv::Got> answer = co_await connection.rpc().exists(key, deadline_ns);
  co_return take(answer, got);
}

struct ScanRequest {
  uint64_t cursor;
  size_t keys_min;
};
Task<Code> ask_scan(kv::RpcClient& rpc, ScanRequest request, ScanPage& page, uint64_t deadline_ns) {
  auto answer = co_await rpc.scan(request.cursor, request.keys_min, deadline_ns);
  page.entries.clear();
  if (!answer) co_return answer.code();
  page.next = answer->next;
  for (auto& key : answer->keys) {
    page.entries.push_back({std::move(key.key), key.version, key.value_bytes});
  }
  co_return Code::kOk;
}

struct PutCall {
  Bytes key;
  Bytes value;
  PutOptions options;
};
Task<Result<uint64_t>> ask_put(Connection& connection, PutCall call, Write& write, uint64_t deadline_ns) {
  const uint64_t begun_ns = connection.now_ns();
  const kv::RpcPutOptions options = options_of(call.options, write.attempt());
  Result<uint64_t> version = fail(Code::kUnavailable);
  if (kv::ChainClient* chains = connection.chains(); chains != nullptr) {
    version = co_await chains->put(call.key, call.value, options, deadline_ns);
  } else {
    version = co_await connection.rpc().put(call.key, call.value, options, deadline_ns);
  }
  write.note(version.code(), begun_ns);
  co_return version;
}

struct EraseCall {
  Bytes key;
  uint64_t if_version;
};
Task<Result<uint64_t>> ask_erase(Connection& connection, EraseCall call, Write& write, uint64_t deadline_ns) {
  const uint64_t begun_ns = connection.now_ns();
  const Result<uint64_t> version =
      co_await connection.rpc().erase(call.key, call.if_version, deadline_ns, write.attempt());
  write.note(version.code(), begun_ns);
  co_return version;
}

// A view's own bytes.
struct CopyRoom {
  std::unique_ptr<std::byte[]>* target;
  std::byte* operator()(uint64_t bytes) const {
    // One more, so that a view of nothing has bytes of its own, too.
    *target = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
    return target->get();
  }
};

Task<> stat_of_shard(Peers& peers, uint32_t shard, NodeStat& sum, Code& code, kv::TaskTeam& team) {
  const auto reply = co_await peers.ask<kv::wire::StatReply>(
      {.key = {}, .shard = shard},
      [](Connection& connection, uint64_t deadline_ns) { return connection.rpc().stat(deadline_ns); });
  if (reply) {
    add_to(sum, stat_of(*reply));
  } else {
    code = reply.code();
  }
  team.leave();
}

}  // namespace

std::byte* Room::operator()(uint64_t bytes) const {
  return string != nullptr ? StringRoom{string}(bytes) : BufferRoom{buffer}(bytes);
}

Task<Reported<std::unique_ptr<AsyncClient>>> AsyncClient::connect(runtime::Shard& shard, std::string address,
                                                                  ClientOptions options) {
  auto settings = Settings::make(address, options);
  if (!settings) co_return report(std::move(settings).error());
  std::unique_ptr<AsyncClient> client(new AsyncClient(shard, std::move(*settings)));
  const bool reached = co_await client->peers_.establish(shard.refresh_now() + options.timeout_ns);
  if (!reached) co_return report(client->trouble());
  co_return client;
}

Code AsyncClient::get_directly(Bytes key, const Room& room, Got& got) {
  if (peers_.is_child()) [[unlikely]]
    return Code::kForked;
  if (const Code code = check_key(key); code != Code::kOk) return code;
  Connection* connection = peers_.at(Place{.key = key});
  if (connection == nullptr || connection->reader() == nullptr) return Code::kInvalidated;
  // The shard's own turns poll the connections; this only has them look at what tells that a node has gone.
  if (++reads_ % kReadsPerLook == 0 || connection->is_node_stopping()) peers_.look_around();
  return read_value(*connection, key, room, got);
}

Task<Result<Got>> AsyncClient::get_slowly(Bytes key, Room room) {
  Got got;
  Sink<Room> sink(room);
  // Many gets and puts at a time are bounded by what each costs here, and frames of coroutines were most of
  // it. What ends other than well is begun anew by the ways that know about retries.
  Connection* connection = peers_.answering_at({.key = key});
  if (connection != nullptr && connection->reader() == nullptr && connection->chains() == nullptr) {
    const Peers::Use use(*connection);
    kv::RpcClient::GetAttempt attempt(connection->rpc(), key, sink);
    if (attempt.is_sent()) {
      std::optional<Result<kv::Got>> answer = co_await attempt;
      if (!answer) answer = co_await attempt.finish();
      if (const Code code = take(*answer, got); code == Code::kOk) {
        co_return got;
      } else if (code != Code::kUnavailable) {
        peers_.note(*connection, code);
        co_return fail(code);
      }
    }
  }
  const Code code = co_await peers_.read(
      {.key = key}, [&](Connection& at) { return read_value(at, key, room, got); },
      [&](Connection& at, uint64_t deadline_ns) { return ask_get(at, key, sink, got, deadline_ns); });
  if (code != Code::kOk) co_return fail(code);
  co_return got;
}

AsyncClient::Get AsyncClient::get(Bytes key, std::string& value) noexcept {
  return {*this, key, Room{.string = &value, .buffer = {}}};
}

AsyncClient::Get AsyncClient::get_into(Bytes key, std::span<std::byte> value) noexcept {
  return {*this, key, Room{.string = nullptr, .buffer = value}};
}

bool AsyncClient::Get::await_ready() {
  code_ = client_.get_directly(key_, room_, got_);
  return code_ != Code::kInvalidated && code_ != Code::kCorrupt;
}

bool AsyncClient::Get::await_suspend(std::coroutine_handle<> waiter) {
  slow_ = client_.get_slowly(key_, room_);
  return std::move(slow_).operator co_await().await_suspend(waiter);
}

Result<Got> AsyncClient::Get::await_resume() {
  if (slow_.valid()) return slow_.take();
  if (code_ != Code::kOk) return fail(code_);
  return got_;
}

Code AsyncClient::view_directly(Connection& connection, Bytes key, View& view) {
  Connection::Reader& reader = *connection.reader();
  const Connection::Reader::Pinned pinned = reader.pin(key, reader.hash(key));
  if (pinned.found.code != Code::kOk) return pinned.found.code;
  connection.hold();
  view.held_by_ = &connection;
  view.pin_ = pinned.pin;
  view.bytes_ = {connection.at(pinned.value), pinned.found.value_bytes};
  view.version_ = pinned.found.version;
  return Code::kOk;
}

Task<Result<View>> AsyncClient::view(Bytes key) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  View view;
  Got got;
  const CopyRoom room{&view.copy_};
  Sink<CopyRoom> sink(room);
  const Code code = co_await peers_.read(
      {.key = key}, [&](Connection& connection) { return view_directly(connection, key, view); },
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_get(connection, key, sink, got, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  if (view.held_by_ == nullptr) {
    view.bytes_ = {view.copy_.get(), got.value_bytes};
    view.version_ = got.version;
  }
  co_return std::move(view);
}

Task<Result<Got>> AsyncClient::exists(Bytes key) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  Got got;
  const Code code = co_await peers_.read(
      {.key = key}, [&](Connection& connection) { return look_at_entry(connection, key, got); },
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_exists(connection, key, got, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  co_return got;
}

Task<Result<ScanPage>> AsyncClient::scan(uint64_t cursor, size_t keys_min) {
  ScanPage page;
  const ShardCursor at = ShardCursor::from(cursor);
  co_await peers_.find_out();
  if (peers_.is_known() && at.shard >= peers_.count()) co_return page;
  const Code code = co_await peers_.read(
      {.key = {}, .shard = at.shard},
      [&](Connection& connection) { return scan_directly(*connection.reader(), at.own, keys_min, page); },
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_scan(connection.rpc(), {.cursor = at.own, .keys_min = keys_min}, page, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  page.next = at.followed_by(page.next, peers_.count());
  co_return std::move(page);
}

Task<Result<uint64_t>> AsyncClient::put(Bytes key, Bytes value, PutOptions options) {
  if (const Code code = check_put(key, options); code != Code::kOk) co_return fail(code);
  Connection* connection = needs_identity(options) ? nullptr : peers_.answering_at({.key = key});
  if (connection != nullptr && connection->chains() == nullptr) {
    const Peers::Use use(*connection);
    // Awaiting changes it, which the check does not see.
    kv::RpcClient::PutAttempt attempt(  // NOLINT(misc-const-correctness)
        connection->rpc(), {.key = key, .value = value, .ttl_ns = options.ttl_ns});
    if (attempt.is_sent()) {
      const std::optional<Result<uint64_t>> version = co_await attempt;
      if (version) {
        peers_.note(*connection, version->code());
        co_return *version;
      }
    }
  }
  Write write(peers_, options.request, is_conditional(options));
  const Result<uint64_t> version = co_await put_on(key, value, options, write);
  co_return version;
}

Task<Result<uint64_t>> AsyncClient::put_on(Bytes key, Bytes value, PutOptions options, Write& write) {
  const Result<uint64_t> version = co_await peers_.ask<uint64_t>(
      {.key = key},
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_put(connection, {.key = key, .value = value, .options = options}, write, deadline_ns);
      },
      [&](const Connection& connection, Code code) { return write.may_go_again(connection, code); });
  write.end(peers_, version.code());
  co_return version;
}

Task<Result<uint64_t>> AsyncClient::erase(Bytes key, uint64_t if_version, RequestId request) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  Write write(peers_, request, if_version != 0);
  const Result<uint64_t> version = co_await peers_.ask<uint64_t>(
      {.key = key},
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_erase(connection, {.key = key, .if_version = if_version}, write, deadline_ns);
      },
      [&](const Connection& connection, Code code) { return write.may_go_again(connection, code); });
  write.end(peers_, version.code());
  co_return version;
}

void AsyncClient::get_directly(std::span<GetItem> items, std::vector<uint32_t>& rest) {
  struct Way {
    Connection::Reader* reader;
    uint64_t hash;
  };
  std::array<Way, kGroup> ways;
  for (size_t first = 0; first < items.size(); first += kGroup) {
    const std::span<GetItem> group = items.subspan(first, std::min(kGroup, items.size() - first));
    // Two passes that only prefetch, so that the misses of the whole group overlap.
    for (size_t i = 0; i < group.size(); ++i) {
      Connection* connection =
          check_key(group[i].key) == Code::kOk ? peers_.at(Place{.key = group[i].key}) : nullptr;
      ways[i] = {.reader = connection == nullptr ? nullptr : connection->reader(), .hash = 0};
      if (ways[i].reader == nullptr) continue;
      ways[i].hash = ways[i].reader->hash(group[i].key);
      ways[i].reader->prefetch_bucket(ways[i].hash);
    }
    for (size_t i = 0; i < group.size(); ++i) {
      if (ways[i].reader != nullptr) ways[i].reader->prefetch_buffers(ways[i].hash);
    }
    for (size_t i = 0; i < group.size(); ++i) {
      GetItem& item = group[i];
      kv::Found found{.code = check_key(item.key)};
      if (found.code == Code::kOk) {
        found.code = Code::kInvalidated;
        if (ways[i].reader != nullptr)
          found = ways[i].reader->get(item.key, ways[i].hash, StringRoom{&item.value});
      }
      if (found.code == Code::kInvalidated || found.code == Code::kCorrupt) {
        rest.push_back(static_cast<uint32_t>(first + i));
      } else {
        item.result = found.code == Code::kOk ? Result<Got>(got_of(found)) : fail(found.code);
      }
    }
  }
}

// What one shard is asked for: what is still open, and whose it is.
struct AsyncClient::ShardGets {
  uint32_t shard = 0;
  std::vector<GetItem*> owners;
  std::vector<StringRoom> rooms;
  std::vector<Sink<StringRoom>> sinks;
  std::vector<kv::RpcClient::GetItem> open;
  kv::TaskTeam* team = nullptr;  // Null: it is the only shard.
};

struct AsyncClient::ShardPuts {
  uint32_t shard = 0;
  std::vector<PutItem*> owners;
  std::vector<Write> writes;
  std::vector<kv::RpcClient::PutItem> open;
  kv::TaskTeam* team = nullptr;
};

namespace {

template <typename Job>
Task<Result<bool>> ask_gets(Connection& connection, Job& job, uint64_t deadline_ns) {
  if (kv::ChainClient* chains = connection.chains(); chains != nullptr) {
    co_await chains->multi_get(job.open, deadline_ns);
  } else {
    co_await connection.rpc().multi_get(job.open, deadline_ns);
  }
  size_t left = 0;
  for (size_t i = 0; i < job.open.size(); ++i) {
    Got got;
    const Code code = take(job.open[i].result, got);
    job.owners[i]->result = code == Code::kOk ? Result<Got>(got) : fail(code);
    if (code != Code::kUnavailable) continue;
    job.open[left] = job.open[i];
    job.owners[left++] = job.owners[i];
  }
  job.open.resize(left);
  job.owners.resize(left);
  if (left > 0) co_return fail(Code::kUnavailable);
  co_return true;
}

// Those that surely were not sent go again when there is a server, and those whose outcome was lost, too,
// where the server will know them again; the others have their outcome.
template <typename Job>
Task<Result<bool>> ask_puts(Peers& peers, Connection& connection, Job& job, uint64_t deadline_ns) {
  const uint64_t begun_ns = connection.now_ns();
  for (size_t i = 0; i < job.open.size(); ++i) job.open[i].options.attempt = job.writes[i].attempt();
  if (kv::ChainClient* chains = connection.chains(); chains != nullptr) {
    co_await chains->multi_put(job.open, deadline_ns);
  } else {
    co_await connection.rpc().multi_put(job.open, deadline_ns);
  }
  for (size_t i = 0; i < job.open.size(); ++i) {
    const Code code = job.open[i].result.code();
    job.writes[i].note(code, begun_ns);
    // What was once under way stays in doubt until somebody knows.
    const bool is_in_doubt = job.owners[i]->result.code() == Code::kIndeterminate;
    if (code != Code::kUnavailable || !is_in_doubt) job.owners[i]->result = job.open[i].result;
  }
  size_t left = 0;
  for (size_t i = 0; i < job.open.size(); ++i) {
    if (!job.writes[i].may_go_again(connection, job.open[i].result.code())) {
      job.writes[i].end(peers, job.owners[i]->result.code());
      continue;
    }
    job.open[left] = job.open[i];
    job.writes[left] = job.writes[i];
    job.owners[left++] = job.owners[i];
  }
  job.open.resize(left);
  job.writes.erase(job.writes.begin() + static_cast<ptrdiff_t>(left), job.writes.end());
  job.owners.resize(left);
  if (left > 0) co_return fail(Code::kUnavailable);
  co_return true;
}

// One job for each shard that has some of the items.
template <typename Job>
Job& job_of(std::vector<Job>& jobs, uint32_t shard) {
  for (Job& job : jobs) {
    if (job.shard == shard) return job;
  }
  jobs.emplace_back();
  jobs.back().shard = shard;
  return jobs.back();
}

}  // namespace

Task<> AsyncClient::get_of_shard(ShardGets& job) {
  // What points into these stays true.
  job.rooms.reserve(job.owners.size());
  job.sinks.reserve(job.owners.size());
  for (size_t i = 0; i < job.owners.size(); ++i) {
    job.sinks.emplace_back(job.rooms.emplace_back(StringRoom{&job.owners[i]->value}));
    job.open.push_back({.key = job.owners[i]->key, .sink = &job.sinks.back()});
  }
  const Result<bool> all = co_await peers_.ask<bool>(
      {.key = {}, .shard = job.shard},
      [&](Connection& connection, uint64_t deadline_ns) { return ask_gets(connection, job, deadline_ns); });
  for (GetItem* item : job.owners) item->result = fail(all.code());
  if (job.team != nullptr) job.team->leave();
}

Task<> AsyncClient::put_of_shard(ShardPuts& job) {
  for (size_t i = 0; i < job.owners.size(); ++i) {
    const PutItem& item = *job.owners[i];
    job.open.push_back(
        {.key = item.key, .value = item.value, .options = options_of(item.options, job.writes[i].attempt())});
  }
  const Result<bool> all = co_await peers_.ask<bool>({.key = {}, .shard = job.shard},
                                                     [&](Connection& connection, uint64_t deadline_ns) {
                                                       return ask_puts(peers_, connection, job, deadline_ns);
                                                     });
  for (size_t i = 0; i < job.owners.size(); ++i) {
    PutItem& item = *job.owners[i];
    if (item.result.code() != Code::kIndeterminate) item.result = fail(all.code());
    job.writes[i].end(peers_, item.result.code());
  }
  if (job.team != nullptr) job.team->leave();
}

template <typename Job>
Task<> AsyncClient::run(std::vector<Job>& jobs, Task<> (AsyncClient::*work)(Job&)) {
  if (jobs.size() == 1) co_await (this->*work)(jobs.front());
  if (jobs.size() < 2) co_return;
  kv::TaskTeam team(peers_.shard());
  for (Job& job : jobs) {
    job.team = &team;
    team.add((this->*work)(job));
  }
  co_await team.run();
}

Task<> AsyncClient::get_by_calls(std::span<GetItem> items, std::span<const uint32_t> which) {
  co_await peers_.find_out();
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t node = peers_.connections();
    std::vector<ShardGets> jobs;
    for (const uint32_t index : which) {
      GetItem& item = items[index];
      if (round > 0 && !is_misplaced(item.result.code())) continue;
      if (const Code code = check_key(item.key); code != Code::kOk) {
        item.result = fail(code);
      } else {
        job_of(jobs, peers_.index_of({.key = item.key})).owners.push_back(&item);
      }
    }
    co_await run(jobs, &AsyncClient::get_of_shard);
    if (peers_.connections() == node) break;
  }
}

Task<> AsyncClient::multi_get(std::span<GetItem> items) {
  std::vector<uint32_t> rest;
  if (peers_.is_child()) {
    for (GetItem& item : items) item.result = fail(Code::kForked);
    co_return;
  }
  get_directly(items, rest);
  if (!rest.empty()) co_await get_by_calls(items, rest);
}

Task<> AsyncClient::multi_put(std::span<PutItem> items) {
  co_await peers_.find_out();
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t node = peers_.connections();
    std::vector<ShardPuts> jobs;
    for (PutItem& item : items) {
      if (round > 0 && !is_misplaced(item.result.code())) continue;
      item.result = fail(Code::kUnavailable);
      if (const Code code = check_put(item.key, item.options); code != Code::kOk) {
        item.result = fail(code);
        continue;
      }
      ShardPuts& job = job_of(jobs, peers_.index_of({.key = item.key}));
      job.owners.push_back(&item);
      job.writes.emplace_back(peers_, item.options.request, is_conditional(item.options));
    }
    co_await run(jobs, &AsyncClient::put_of_shard);
    if (peers_.connections() == node) break;
  }
}

Task<Result<NodeStat>> AsyncClient::stat() {
  co_await peers_.find_out();
  NodeStat sum;
  Code code = Code::kOk;
  kv::TaskTeam team(peers_.shard());
  for (uint32_t shard = 0; shard < peers_.count(); ++shard) {
    team.add(stat_of_shard(peers_, shard, sum, code, team));
  }
  co_await team.run();
  if (code != Code::kOk) co_return fail(code);
  co_return std::move(sum);
}

Task<Result<Pong>> AsyncClient::ping() {
  const Clock& clock = peers_.shard().clock();
  uint64_t sent_ns = 0;
  const auto reply = co_await peers_.ask<kv::wire::PingReply>(
      {.key = {}, .shard = 0}, [&](Connection& connection, uint64_t deadline_ns) {
        sent_ns = clock.now_ns();
        return connection.rpc().ping(sent_ns, deadline_ns);
      });
  if (!reply) co_return fail(reply.error());
  co_return Pong{.round_trip_ns = clock.now_ns() - sent_ns, .node_wall_ns = reply->wall_ns};
}

Route AsyncClient::route() const {
  Route route;
  peers_.fill(route);
  return route;
}

}  // namespace refract::client
