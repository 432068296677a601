// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/rival.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "tests/campaign/model.h"

#include "refract/base/units.h"

namespace refract::campaign {

using linearizability::Operation;
using runtime::Task;

namespace {

constexpr uint64_t kTimeout_ns = 5 * kMillisecond_ns;
// Of a value: shorter ones could not say which they are.
constexpr size_t kTellingBytes = 40;
constexpr size_t kLargeBytes = 4'000;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Says nothing about the key: the network's, or a refusal.
bool is_no_answer(Code code) noexcept {
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kOverloaded ||
         code == Code::kInvalidated || code == Code::kNoSpace || code == Code::kReadOnly;
}

}  // namespace

void RivalStage::complain(const std::string& wrong) {
  if (!is_over()) outcome.wrong = fmt::format("seed {} at {} us: {}", run.seed, now_ns() / 1000, wrong);
}

Rival::Rival(RivalStage& stage, sim::Host& host, const Options& options)
    : stage_(stage),
      host_(host),
      options_(options),
      prng_(stage.world.prng().next()),
      client_number_(stage.recorder.client(options.name)),
      identity_(prng_.next() | 1) {
  for (size_t index = 0; index < stage_.nodes.back().shards.size(); ++index) {
    reaches_.emplace_back().index = index;
  }
  begin_life();
}

Rival::~Rival() {
  finish();
}

// Also when the host dies in the middle of an operation.
void Rival::finish() {
  if (!std::exchange(finished_, true)) --stage_.rivals_left;
}

Task<bool> Rival::connect() {
  while (!stage_.is_over()) {
    bool has_all = true;
    for (Reach& reach : reaches_) {
      const bool connected = co_await connect_to(reach);
      has_all = has_all && connected;
    }
    if (has_all) co_return true;
    co_await host_.shard().sleep_for(20'000);
  }
  co_return false;
}

Task<bool> Rival::connect_to(Reach& reach) {
  const bool is_open = reach.session != nullptr && reach.session->state() == rpc::Session::State::kOpen;
  if (is_open && reach.client != nullptr) co_return true;
  if (is_open && reach.life == stage_.life()) {
    begin_life();
    kv::RpcClientOptions options{.timeout_ns = kTimeout_ns};
    if (prng_.chance(0.7)) options.lender = options_.lender;
    reach.client = std::make_unique<kv::RpcClient>(*reach.session, host_.shard(), options);
    // Few places, so that many are found again.
    reach.chains = std::make_unique<kv::ChainClient>(
        *reach.client, host_.shard(), kv::ChainClientOptions{.timeout_ns = kTimeout_ns, .slots = 8});
    reach.remote = std::make_unique<kv::RemoteClient>(*reach.client, host_.shard(), remote_options());
    if (reach.was_connected) ++stage_.outcome.reconnects;
    reach.was_connected = true;
    co_return true;
  }
  if (reach.session == nullptr || is_open || reach.session->state() == rpc::Session::State::kClosed) {
    // It may be the session that runs this task.
    co_await host_.shard().sleep_for(0);
    drop_session(reach);
    reach.life = stage_.life();
    const Reported<fabric::Channel*> channel = options_.domain->connect(RivalStage::shard_name(reach.index));
    if (channel) reach.session = std::make_unique<rpc::Session>(**channel, host_.shard());
  }
  co_return false;
}

kv::RemoteClientOptions Rival::remote_options() const {
  return {.timeout_ns = kTimeout_ns,
          .location_bytes = 2'000,
          .batch = 5,
          // The server's clock is stepped this far, and the shard's own is a little old.
          .clock_error_ns = 2 * kWallError_ns + 20'000};
}

Task<> Rival::disconnect() {
  co_await host_.shard().sleep_for(0);
  for (Reach& reach : reaches_) drop_session(reach);
}

void Rival::drop_session(Reach& reach) {
  if (reach.chains != nullptr) {
    stage_.outcome.chain_gets += reach.chains->counts().gets;
    stage_.outcome.chain_puts += reach.chains->counts().puts;
    stage_.outcome.chain_conflicts += reach.chains->counts().conflicts;
  }
  if (reach.remote != nullptr) {
    const kv::RemoteCounts& counts = reach.remote->counts();
    stage_.outcome.remote_gets += counts.gets;
    stage_.outcome.remote_calls += counts.all_called();
    stage_.outcome.remote_retries += counts.retries;
    stage_.outcome.remote_expiring += counts.called[static_cast<size_t>(kv::WhyCalled::kExpires)];
    stage_.outcome.remote_hits += reach.remote->locations().counts().hits;
    stage_.outcome.remote_stale += reach.remote->locations().counts().stale;
  }
  reach.remote.reset();
  reach.chains.reset();
  reach.client.reset();
  reach.session.reset();
}

Task<> Rival::work() {
  for (int i = 0; i < stage_.run.operations && !stage_.is_over(); ++i) {
    const bool connected = co_await connect();
    if (!connected) break;
    co_await step();
    for (uint64_t reads = prng_.below(4); reads > 0 && !stage_.is_over(); --reads) {
      read_directly(any_key(), !prng_.chance(0.1));
    }
    if (prng_.chance(0.2)) co_await host_.shard().sleep_for(prng_.below(100'000));
  }
  co_await disconnect();
  finish();
}

Task<> Rival::step() {
  const uint64_t draw = prng_.below(100);
  if (draw < 42) {
    co_await put();
  } else if (draw < 55) {
    co_await erase();
  } else if (draw < 74) {
    co_await get(any_key());
  } else if (draw < 79) {
    co_await exists(any_key());
  } else if (draw < 86) {
    co_await get_many();
  } else if (draw < 97) {
    if (stage_.run.batches) {
      co_await put_together();
    } else {
      co_await put_many();
    }
  } else {
    co_await scan();
  }
}

// Mostly one of the few that all clients want.
std::string Rival::any_key() {
  constexpr uint64_t kHot = 5;
  const uint64_t number = prng_.chance(0.7) ? prng_.below(kHot) : prng_.below(stage_.keys);
  return fmt::format("k{}", number);
}

size_t Rival::draw_bytes() {
  // The memory is full soon, and stays so.
  if (stage_.run.evicts && prng_.chance(0.3)) return 20'000 + prng_.below(70'000);
  if (prng_.chance(0.85)) return kTellingBytes + prng_.below(160);
  // In pieces; from 16 KiB on pinned while it is copied; above 64 KiB an extent. Many of one length, so that
  // a buffer that is given back too early is soon taken again.
  if (prng_.chance(0.6)) return 9'000;
  return 5'000 + prng_.below(prng_.chance(0.2) ? 70'000 : 20'000);
}

kv::RpcPutOptions Rival::draw_options(const std::string& key) {
  kv::RpcPutOptions options;
  const uint64_t draw = prng_.below(100);
  if (draw < 15) {
    options.if_absent = true;
  } else if (draw < 50) {
    options.if_version = versions_[key];
  }
  if (prng_.chance(0.1) && !stage_.has_wild_clocks())
    options.ttl_ns = 3 * kWallError_ns + prng_.below(2 * kMillisecond_ns);
  return options;
}

Operation Rival::call_of(Kind kind, const std::string& key) {
  return {.client = client_number_, .key = stage_.recorder.key(stage_.name_of(life_, key)), .kind = kind};
}

Rival::Put Rival::begin_put(const std::string& key, size_t bytes, const kv::RpcPutOptions& options) {
  Operation call = call_of(Kind::kPut, key);
  call.value = ++stage_.values;
  call.if_absent = options.if_absent;
  call.if_version = options.if_version;
  if (options.ttl_ns != 0) {
    ++stage_.outcome.expiring;
    call.expires_from_ns = stage_.now_ns() + options.ttl_ns - 2 * kWallError_ns;
  }
  if (bytes > kLargeBytes) ++stage_.outcome.large;
  return {.key = key,
          .value = sealed_value(key, call.value, bytes),
          .options = options,
          .record = stage_.recorder.begin(call, stage_.now_ns())};
}

void Rival::end_put(const Put& put, const Result<uint64_t>& result) {
  const Code code = result.code();
  const bool is_possible =
      (code != Code::kExists || put.options.if_absent) &&
      ((code != Code::kNotFound && code != Code::kVersionMismatch) || put.options.if_version != 0);
  if (!is_possible) stage_.complain(fmt::format("a put without that condition gave '{}'", info(code).text));
  if (put.options.ttl_ns != 0) {
    stage_.recorder.operation(put.record).expires_until_ns =
        stage_.now_ns() + put.options.ttl_ns + 2 * kWallError_ns;
  }
  if (code == Code::kNoSpace) ++stage_.outcome.no_space;
  if (code == Code::kReadOnly) ++stage_.outcome.read_only;
  end_write(put.record, put.key, result);
  if (result) versions_[put.key] = *result;
}

void Rival::end_write(size_t record, const std::string& key, const Result<uint64_t>& result) {
  linearizability::Recorder::Return end{.now_ns = stage_.now_ns()};
  switch (result.code()) {
    case Code::kOk:
      end.outcome = Outcome::kDone;
      end.version = *result;
      break;
    case Code::kNotFound:
      end.outcome = Outcome::kAbsent;
      break;
    case Code::kExists:
      end.outcome = Outcome::kExists;
      break;
    case Code::kVersionMismatch:
      end.outcome = Outcome::kMismatch;
      ++stage_.outcome.mismatches;
      break;
    case Code::kIndeterminate:
      end.outcome = Outcome::kUnknown;
      ++stage_.outcome.unknown;
      break;
    default:
      if (!is_no_answer(result.code())) {
        stage_.complain(fmt::format("a write of {} gave '{}'", key, info(result.code()).text));
      }
      // What found no room may be executed when it comes the second time.
      if (stage_.sends_twice()) end.outcome = Outcome::kUnknown;
  }
  stage_.recorder.end(record, end);
}

uint64_t Rival::number_in(const std::string& key, const std::string& value) {
  const size_t from = value.find('#') + 1;
  uint64_t number = 0;
  if (from != 0) std::from_chars(value.data() + from, value.data() + value.size(), number);
  if (number != 0 && number <= stage_.values && value == sealed_value(key, number, value.size())) {
    return number;
  }
  stage_.complain(fmt::format("{} was read as {} bytes '{}' that no client wrote", key, value.size(),
                              value.substr(0, 60)));
  return 0;
}

void Rival::end_read(size_t record, const std::string& key, const Read& read) {
  linearizability::Recorder::Return end{.now_ns = stage_.now_ns()};
  if (stage_.recorder.operation(record).began < stage_.reborn) {
    // Nothing comes from a host that died in between.
    stage_.recorder.end(record, end);
    return;
  }
  if (read.code == Code::kOk) {
    end.outcome = Outcome::kDone;
    end.version = versions_[key] = read.version;
    if (read.value != nullptr) end.value = number_in(key, *read.value);
  } else if (read.code == Code::kNotFound) {
    end.outcome = Outcome::kAbsent;
  } else if (!is_no_answer(read.code)) {
    stage_.complain(fmt::format("a read of {} gave '{}'", key, info(read.code).text));
  }
  stage_.recorder.end(record, end);
}

Task<> Rival::put() {
  const std::string key = any_key();
  const size_t bytes = draw_bytes();
  const Put put = begin_put(key, bytes, draw_options(key));
  const kv::RpcAttempt attempt = first_attempt(put.options.if_absent || put.options.if_version != 0);
  const size_t life = life_;
  bool by_chains = false;
  Result<uint64_t> result = fail(Code::kIndeterminate);
  for (int times = 0; may_send(attempt, times, result); ++times) {
    if (times > 0) {
      const bool connected = co_await connect();
      // Nothing can be asked of a node that is not there any more.
      if (!connected || is_gone(life)) break;
    }
    kv::RpcPutOptions options = put.options;
    options.attempt = attempt_now(attempt, times);
    Result<uint64_t> answer = fail(Code::kUnavailable);
    Reach& reach = reach_of(key);
    if (goes_by_chains()) {
      by_chains = true;
      answer = co_await reach.chains->put(bytes_of(key), bytes_of(put.value), options);
    } else {
      // Some are given up while the server works on them.
      const uint64_t hurry_ns = host_.shard().now_ns() + 10'000 + prng_.below(150'000);
      const uint64_t deadline_ns = prng_.chance(0.15) ? hurry_ns : 0;
      answer = co_await reach.client->put(bytes_of(key), bytes_of(put.value), options, deadline_ns);
    }
    result = what_is_known(answer, times);
  }
  end_put(put, result);
  if (by_chains && !result) stage_.refused_by_reading.push_back(put.record);
  if (result.code() == Code::kIndeterminate && prng_.chance(0.5)) co_await doubt(key);
}

// Conditions that hardly ever hold, one after the other, on an entry whose version no client was told: each
// answer says one that it does not have.
Task<> Rival::doubt(std::string key) {
  const bool connected = co_await connect();
  for (int i = 0; i < 5 && connected && !stage_.is_over(); ++i) {
    kv::RpcPutOptions options;
    if (i < 4) options.if_version = 1 + prng_.below(1'000);
    const Put put = begin_put(key, kTellingBytes, options);
    const Result<uint64_t> result =
        co_await reach_of(key).client->put(bytes_of(key), bytes_of(put.value), options);
    end_put(put, result);
    if (!result && is_no_answer(result.code())) break;
  }
}

bool Rival::is_gone(size_t life) const noexcept {
  return life_ != life && !stage_.is_durable();
}

// Most conditional writes carry an identity, and some others.
kv::RpcAttempt Rival::first_attempt(bool is_conditional) {
  if (stage_.run.mutation == Mutation::kBlindRetry || !prng_.chance(is_conditional ? 0.7 : 0.2)) return {};
  return {.request = {.client = identity_, .sequence = ++sequence_},
          .first_sent_ns = std::max(host_.shard().now_ns(), kv::RpcAttempt::kLongAgo_ns + 1)};
}

bool Rival::may_send(const kv::RpcAttempt& attempt, int times, const Result<uint64_t>& result) const {
  constexpr int kTimes = 6;
  const bool may_repeat = attempt.request || stage_.run.mutation == Mutation::kBlindRetry;
  return result.code() == Code::kIndeterminate && times < (may_repeat ? kTimes : 1);
}

// What is sent: the first time it is no repetition.
kv::RpcAttempt Rival::attempt_now(const kv::RpcAttempt& attempt, int times) {
  kv::RpcAttempt now = attempt;
  if (!attempt.request || times == 0) {
    now.first_sent_ns = 0;
    return now;
  }
  ++stage_.outcome.repeated;
  if (stage_.run.mutation == Mutation::kLateFirstSent) now.first_sent_ns = host_.shard().now_ns();
  return now;
}

// That a repetition was not executed says nothing of the attempts before it.
Result<uint64_t> Rival::what_is_known(const Result<uint64_t>& answer, int times) {
  if (times == 0) return answer;
  if (is_no_answer(answer.code())) return fail(Code::kIndeterminate);
  if (answer.code() != Code::kIndeterminate) ++stage_.outcome.repeated_answered;
  return answer;
}

// Some of one shard at one moment. Each is an operation of the history; that they come and go together shows
// when the table is compared with its log.
Task<> Rival::put_together() {
  std::vector<Put> puts;
  for (int tries = 0; tries < 8 && puts.size() < 3; ++tries) {
    const std::string key = any_key();
    const bool is_there = std::ranges::find(puts, key, &Put::key) != puts.end();
    if (is_there || (!puts.empty() && reach_of(key).index != reach_of(puts.front().key).index)) continue;
    puts.push_back(begin_put(key, kTellingBytes + prng_.below(160), {}));
  }
  std::vector<kv::RpcBatchWrite> writes;
  for (const Put& put : puts) {
    writes.push_back({.key = bytes_of(put.key), .kind = kv::WriteKind::kPut, .value = bytes_of(put.value)});
  }
  kv::RpcBatch batch{.conditions = {}, .writes = writes};
  const Result<> result = co_await reach_of(puts.front().key).client->change(batch);
  stage_.outcome.batches += result && puts.size() > 1 ? 1 : 0;
  for (size_t i = 0; i < puts.size(); ++i) {
    end_put(puts[i], result ? Result<uint64_t>(writes[i].version) : fail(result.code()));
  }
}

// Several at once, as a pipeline.
Task<> Rival::put_many() {
  std::vector<Put> puts;
  for (uint64_t count = 2 + prng_.below(stage_.keys > 20 ? 40 : 6); count > 0; --count) {
    const std::string key = any_key();
    if (std::ranges::find(puts, key, &Put::key) != puts.end()) continue;
    puts.push_back(begin_put(key, kTellingBytes + prng_.below(160), {}));
  }
  // Those of one shard lie together, as its call wants them.
  std::ranges::sort(puts, {}, [this](const Put& put) { return reach_of(put.key).index; });
  std::vector<kv::RpcClient::PutItem> items(puts.size());
  std::vector<size_t> counts(reaches_.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = bytes_of(puts[i].key);
    items[i].value = bytes_of(puts[i].value);
    ++counts[reach_of(puts[i].key).index];
  }
  std::span<kv::RpcClient::PutItem> rest = items;
  for (Reach& reach : reaches_) {
    const auto its_own = rest.first(counts[reach.index]);
    rest = rest.subspan(its_own.size());
    if (!its_own.empty()) co_await reach.client->multi_put(its_own);
  }
  for (size_t i = 0; i < items.size(); ++i) end_put(puts[i], items[i].result);
}

Task<> Rival::erase() {
  const std::string key = any_key();
  Operation call = call_of(Kind::kErase, key);
  if (prng_.chance(0.4)) call.if_version = versions_[key];
  const size_t record = stage_.recorder.begin(call, stage_.now_ns());
  const kv::RpcAttempt attempt = first_attempt(call.if_version != 0);
  const size_t life = life_;
  Result<uint64_t> result = fail(Code::kIndeterminate);
  for (int times = 0; may_send(attempt, times, result); ++times) {
    if (times > 0) {
      const bool connected = co_await connect();
      if (!connected || is_gone(life)) break;
    }
    const Result<uint64_t> answer =
        co_await reach_of(key).client->erase(bytes_of(key), call.if_version, 0, attempt_now(attempt, times));
    result = what_is_known(answer, times);
  }
  end_write(record, key, result);
}

Task<> Rival::get(std::string key) {
  const size_t record = stage_.recorder.begin(call_of(Kind::kGet, key), stage_.now_ns());
  std::string value;
  kv::StringSink sink(value);
  Result<kv::Got> got = fail(Code::kUnavailable);
  Reach& reach = reach_of(key);
  switch (draw_path()) {
    case Path::kCalls:
      got = co_await reach.client->get(bytes_of(key), sink);
      break;
    case Path::kChains:
      got = co_await reach.chains->get(bytes_of(key), sink);
      break;
    case Path::kRemote:
      got = co_await reach.remote->get(bytes_of(key), sink);
      break;
  }
  if (got && got->value_bytes > kLargeBytes) ++stage_.outcome.large;
  end_read(record, key, {.code = got.code(), .version = got ? got->version : 0, .value = &value});
}

Task<> Rival::get_many() {
  constexpr size_t kKeys = 8;
  std::vector<std::string> keys(kKeys);
  std::vector<std::string> values(kKeys);
  std::vector<kv::StringSink> sinks;
  std::vector<size_t> records;
  std::vector<kv::RpcClient::GetItem> items(kKeys);
  sinks.reserve(kKeys);
  for (std::string& key : keys) key = any_key();
  std::ranges::sort(keys, {}, [this](const std::string& key) { return reach_of(key).index; });
  std::vector<size_t> counts(reaches_.size());
  for (size_t i = 0; i < kKeys; ++i) {
    ++counts[reach_of(keys[i]).index];
    records.push_back(stage_.recorder.begin(call_of(Kind::kGet, keys[i]), stage_.now_ns()));
    sinks.emplace_back(values[i]);
    items[i].key = bytes_of(keys[i]);
    items[i].sink = &sinks[i];
  }
  std::span<kv::RpcClient::GetItem> rest = items;
  const Path path = draw_path();
  for (Reach& reach : reaches_) {
    const auto its_own = rest.first(counts[reach.index]);
    rest = rest.subspan(its_own.size());
    if (its_own.empty()) continue;
    if (path == Path::kCalls) co_await reach.client->multi_get(its_own);
    if (path == Path::kChains) co_await reach.chains->multi_get(its_own);
    if (path == Path::kRemote) co_await reach.remote->multi_get(its_own);
  }
  for (size_t i = 0; i < kKeys; ++i) {
    const Result<kv::Got>& got = items[i].result;
    end_read(records[i], keys[i],
             {.code = got.code(), .version = got ? got->version : 0, .value = &values[i]});
  }
}

Task<> Rival::exists(std::string key) {
  const size_t record = stage_.recorder.begin(call_of(Kind::kGet, key), stage_.now_ns());
  Result<kv::Got> got = fail(Code::kUnavailable);
  Reach& reach = reach_of(key);
  switch (draw_path()) {
    case Path::kCalls:
      got = co_await reach.client->exists(bytes_of(key));
      break;
    case Path::kChains:
      got = co_await reach.chains->exists(bytes_of(key));
      break;
    case Path::kRemote:
      got = co_await reach.remote->exists(bytes_of(key));
      break;
  }
  end_read(record, key, {.code = got.code(), .version = got ? got->version : 0});
}

Task<> Rival::scan() {
  for (Reach& reach : reaches_) co_await scan(reach);
}

Task<> Rival::scan(Reach& reach) {
  uint64_t cursor = 0;
  do {
    const uint64_t began = stage_.recorder.moment();
    const uint64_t began_ns = stage_.now_ns();
    const Result<kv::RpcClient::Page> page = co_await reach.client->scan(cursor, 1 + prng_.below(40));
    if (!page && !is_no_answer(page.code())) {
      stage_.complain(fmt::format("a scan gave '{}'", info(page.code()).text));
    }
    if (!page) co_return;
    list(page->keys, began, began_ns);
    cursor = page->next;
  } while (cursor != 0 && !stage_.is_over());
}

// Each entry of a page was there at a moment while the page was made.
void Rival::list(std::span<const kv::RpcClient::ScannedKey> keys, uint64_t began, uint64_t began_ns) {
  if (began < stage_.reborn) return;
  for (const auto& [key, version, value_bytes] : keys) {
    ++stage_.outcome.listed;
    Operation seen = call_of(Kind::kGet, key);
    seen.outcome = Outcome::kDone;
    seen.version = versions_[key] = version;
    seen.began = began;
    seen.began_ns = began_ns;
    seen.ended = stage_.recorder.moment();
    seen.ended_ns = stage_.now_ns();
    stage_.recorder.add(seen);
  }
}

Task<> Rival::read_all() {
  const bool connected = co_await connect();
  if (!connected) co_return;
  for (uint64_t number = 0; number < stage_.keys && !stage_.is_over(); ++number) {
    const std::string key = fmt::format("k{}", number);
    read_directly(key, true);
    co_await get(key);
  }
  co_await scan();
  co_await disconnect();
  finish();
}

}  // namespace refract::campaign
