// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/transactor.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "refract/base/hash.h"
#include "refract/base/units.h"
#include "refract/kv/layout/routing.h"
#include "refract/kv/layout/transaction_wire.h"

namespace refract::campaign {

using runtime::Task;

namespace {

constexpr uint64_t kConnectPause_ns = 20'000;
constexpr uint64_t kPauseMax_ns = 100'000;
constexpr uint64_t kLooksForAll = 3;
constexpr uint64_t kFillAtOnce = 60;
constexpr uint64_t kFillKeysMax = 12'000;
constexpr uint64_t kFillKeysOfLogs = 2'000;  // Each restart reads the logs.
constexpr uint64_t kKeys = 6;                // Of values that are put and erased,
constexpr uint64_t kNumbers = 3;             // and of numbers, to which is added as well.
// Of a value: shorter ones could not say which they are.
constexpr size_t kTellingBytes = 40;

}  // namespace

std::string TransactionStage::shard_name(size_t index) {
  return fmt::format("shard{}", index);
}

uint32_t TransactionStage::shard_of(std::span<const std::byte> key) const noexcept {
  return kv::KeyRouting{.shards = process.shards()}.shard_of(key, hash_key(key, hash_seed));
}

uint64_t TransactionStage::pause_max_ns() const noexcept {
  if (run.is_very_long()) return 600 * kPauseMax_ns;
  return run.is_long() ? 20 * kPauseMax_ns : kPauseMax_ns;
}

void TransactionStage::complain(const std::string& wrong) {
  if (!is_over()) outcome.wrong = fmt::format("seed {} at {} us: {}", run.seed, now_ns() / 1000, wrong);
}

Transactor::Transactor(TransactionStage& stage, sim::Host& host, const Options& options)
    : stage_(stage),
      host_(host),
      options_(options),
      prng_(stage.world.prng().next()),
      client_number_(stage.recorder.client(options.name)) {
  ++stage_.clients_at_work;
  for (uint32_t index = 0; index < stage_.process.shards(); ++index) {
    reaches_.emplace_back(stage_, host_,
                          Reach::Options{.index = index,
                                         .domain = options.domain,
                                         .stall_chance = options.stall_chance,
                                         .words = options.maps_all ? this : nullptr,
                                         .has_own_words = stage_.run.is_over_nodes});
  }
}

Transactor::~Transactor() {
  finish();
}

// Also when the host dies in the middle of an operation.
void Transactor::finish() {
  if (!std::exchange(is_finished_, true)) --stage_.clients_at_work;
}

Task<> Transactor::stay_connected() {
  while (is_connecting_) {
    for (Reach& reach : reaches_) reach.look_after();
    co_await host_.shard().sleep_for(connect_pause_ns());
  }
  for (Reach& reach : reaches_) reach.close();
}

// A session that opens is seen at once where runs are short.
uint64_t Transactor::connect_pause_ns() const noexcept {
  if (stage_.run.is_very_long()) return 20 * kConnectPause_ns;
  return stage_.run.is_long() ? 3 * kConnectPause_ns : kConnectPause_ns;
}

// Where each shard is a node, some are away, and their calls fail.
Task<bool> Transactor::connected() {
  uint64_t looks = 0;
  while (!stage_.is_over()) {
    bool has_all = true;
    bool was_with_all = stage_.run.is_over_nodes && stage_.operations_left > 0 && ++looks > kLooksForAll;
    for (const Reach& reach : reaches_) {
      has_all = has_all && reach.is_open();
      was_with_all = was_with_all && reach.was_open();
    }
    if (has_all || was_with_all) co_return true;
    co_await host_.shard().sleep_for(connect_pause_ns());
  }
  co_return false;
}

Task<bool> Transactor::await(uint32_t shard, uint64_t deadline_ns) {
  while (!reaches_[shard].is_open()) {
    if (host_.shard().refresh_now() >= deadline_ns || stage_.is_over()) co_return false;
    co_await host_.shard().sleep_for(connect_pause_ns());
  }
  co_return host_.shard().refresh_now() < deadline_ns;
}

std::optional<uint64_t> Transactor::word_at(kv::DecisionPlace place) noexcept {
  if (place.shard() >= reaches_.size() || !reaches_[place.shard()].is_current()) return std::nullopt;
  ++stage_.outcome.words_observed;
  return reaches_[place.shard()].word_at(place.at());
}

Task<> Transactor::work() {
  while (!stage_.is_over() && stage_.operations_left > 0) {
    --stage_.operations_left;
    const bool is_connected = co_await connected();
    if (!is_connected) break;
    co_await step();
    for (uint64_t reads = prng_.below(3); reads > 0 && !stage_.is_over(); --reads) {
      co_await get(any_key(), Way::kDirect);
    }
    const bool pauses = prng_.chance(stage_.run.is_very_long() ? 0.9 : 0.2);
    if (pauses) co_await host_.shard().sleep_for(prng_.below(stage_.pause_max_ns()));
  }
  is_connecting_ = false;
  finish();
}

Task<> Transactor::step() {
  const uint64_t draw = prng_.below(100);
  if (draw < 45) {
    co_await transact(/*is_read_only=*/false);
  } else if (draw < 60) {
    co_await transact(/*is_read_only=*/true);
  } else if (draw < 77) {
    co_await get(any_key(), draw_way());
  } else if (draw < 81) {
    co_await scan();
  } else if (draw < 91) {
    co_await put();
  } else if (draw < 94) {
    co_await put_many();
  } else {
    co_await erase();
  }
}

Task<> Transactor::demand() {
  using Method = kv::wire::TransactionMethod;
  while (!stage_.is_over() && stage_.operations_left > 0) {
    co_await host_.shard().sleep_for(1 + prng_.below(60'000));
    if (stage_.names.empty()) continue;
    kv::TransactionName name = stage_.names[prng_.below(stage_.names.size())];
    // Of a word's next transactions, too, which none has begun yet.
    if (prng_.chance(0.2)) name.number += 1 + prng_.below(3);
    const bool asks_home = prng_.chance(0.3);
    Reach& reach = reaches_[asks_home ? name.place.shard() : prng_.below(reaches_.size())];
    if (!reach.is_open()) continue;
    const kv::wire::NameRequest request{.place = name.place.bits, .number = name.number};
    const auto head = std::as_bytes(std::span(&request, 1));
    const rpc::Call call{.method = static_cast<uint16_t>(asks_home ? Method::kOutcome : Method::kSettle),
                         .head = head,
                         .tail = {}};
    const runtime::OpResult told =
        co_await reach.session().call(call, host_.shard().now_ns() + Reach::kTimeout_ns);
    if (told.code == Code::kOk || told.code == Code::kConflict) ++stage_.outcome.demands;
    if (stage_.has_few_words() && prng_.chance(0.3)) co_await churn_words();
  }
  is_connecting_ = false;
  finish();
}

// Words that are taken and not used are others' again when the session closes.
Task<> Transactor::churn_words() {
  Reach& reach = reaches_[prng_.below(reaches_.size())];
  if (!reach.is_open()) co_return;
  kv::wire::WordsRequest request{};
  request.words = kv::wire::kWordsPerCall;
  rpc::Call call;
  call.method = static_cast<uint16_t>(kv::wire::TransactionMethod::kWords);
  call.head = std::as_bytes(std::span(&request, 1));
  (void)co_await reach.session().call(call, host_.shard().now_ns() + Reach::kTimeout_ns);
  if (prng_.chance(0.6)) reach.close();
}

Task<> Transactor::fill_up() {
  uint64_t keys = 0;
  const uint64_t keys_max = stage_.logs != nullptr ? kFillKeysOfLogs : kFillKeysMax;
  while (!stage_.is_over() && stage_.operations_left > 0) {
    const bool is_connected = co_await connected();
    if (!is_connected) break;
    if (stage_.evicts()) {
      co_await fill_with_large();
    } else if (keys < keys_max) {
      co_await fill_with_many(keys);
      keys += kFillAtOnce;
    }
    co_await host_.shard().sleep_for(1 + prng_.below(stage_.pause_max_ns() * 3 / 5));
  }
  is_connecting_ = false;
  finish();
}

Task<> Transactor::fill_with_large() {
  const std::string key = fmt::format("{}large{}", TransactionStage::kFill, prng_.below(400));
  const std::string value(20'000 + prng_.below(70'000), 'f');
  const auto bytes = std::as_bytes(std::span(value));
  (void)co_await reach_of(key).client().put(std::as_bytes(std::span(key)), bytes);
}

// New keys, those of one shard.
Task<> Transactor::fill_with_many(uint64_t first) {
  const uint64_t shard = prng_.below(reaches_.size());
  std::vector<std::string> keys;
  for (uint64_t i = first; i < first + kFillAtOnce; ++i) {
    std::string key = fmt::format("{}many{}", TransactionStage::kFill, i);
    if (shard_of(std::as_bytes(std::span(key))) == shard) keys.push_back(std::move(key));
  }
  std::vector<kv::RpcClient::PutItem> items(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) items[i].key = std::as_bytes(std::span(keys[i]));
  co_await reaches_[shard].client().multi_put(items);
}

Task<> Transactor::read_all() {
  const bool is_connected = co_await connected();
  for (int round = 0; is_connected && round < 2; ++round) {
    for (uint64_t number = 0; number < kKeys + kNumbers; ++number) {
      const std::string key =
          number < kKeys ? fmt::format("k{}", number) : fmt::format("n{}", number - kKeys);
      for (uint64_t way = 0; way < kWays; ++way) co_await get(key, static_cast<Way>(way));
    }
    for (int i = 0; i < 3; ++i) co_await transact(/*is_read_only=*/round == 1);
  }
  is_connecting_ = false;
  finish();
}

size_t Transactor::begin() {
  return stage_.recorder.begin(client_number_, stage_.now_ns());
}

void Transactor::end(size_t record, Outcome outcome) {
  end_leases(record, outcome);
  stage_.recorder.end(record, {.outcome = outcome, .is_validated = false, .now_ns = stage_.now_ns()});
}

// Only of a committed transaction all that was found counts.
void Transactor::note(size_t record, const std::string& key, const Seen& seen) {
  if (!seen.is_answer()) return;
  stage_.recorder.add(record, {.kind = Kind::kGet,
                               .key = stage_.recorder.key(key),
                               .found = seen.code == Code::kOk ? Found::kPresent : Found::kAbsent,
                               .found_version = seen.code == Code::kOk ? seen.version : 0,
                               .found_value = seen.value});
  if (seen.code == Code::kOk) versions_[key] = seen.version;
}

Transactor::Outcome Transactor::outcome_of(Code code) {
  switch (code) {
    case Code::kOk:
      return Outcome::kCommitted;
    case Code::kIndeterminate:
      return Outcome::kUnknown;
    case Code::kConflict:
    case Code::kExists:
    case Code::kNotFound:
    case Code::kVersionMismatch:
    case Code::kUnavailable:
    case Code::kOverloaded:
    case Code::kDeadlineExceeded:
    case Code::kInvalidated:
    case Code::kNoSpace:
      return Outcome::kRefused;
    default:
      stage_.complain(fmt::format("a write gave '{}'", info(code).text));
      return Outcome::kUnknown;
  }
}

std::string Transactor::any_key() {
  if (prng_.chance(0.25)) return fmt::format("n{}", prng_.below(kNumbers));
  return fmt::format("k{}", prng_.below(kKeys));
}

// A number of its own, and a text that says it.
std::string Transactor::new_value(const std::string& key, int64_t& number) {
  number = ++stage_.values;
  if (is_number(key)) return std::to_string(number);
  // Some are longer than a message.
  const size_t bytes = kTellingBytes + (prng_.chance(0.1) ? prng_.below(6'000) : prng_.below(160));
  return sealed_value(key, static_cast<uint64_t>(number), bytes);
}

std::optional<int64_t> Transactor::number_in(const std::string& key, const std::string& value) {
  int64_t number = 0;
  const size_t from = is_number(key) ? 0 : value.find('#') + 1;
  std::from_chars(value.data() + from, value.data() + value.size(), number);
  const bool is_whole = is_number(key)
                            ? value == std::to_string(number)
                            : number > 0 && number <= stage_.values &&
                                  value == sealed_value(key, static_cast<uint64_t>(number), value.size());
  if (is_whole) return number;
  stage_.complain(fmt::format("{} was read as {} bytes '{}' that no client wrote", key, value.size(),
                              value.substr(0, 60)));
  return std::nullopt;
}

Reach& Transactor::reach_of(const std::string& key) {
  return reaches_[stage_.shard_of(std::as_bytes(std::span(key)))];
}

}  // namespace refract::campaign
