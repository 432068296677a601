// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/kv_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "refract/base/testing/keys_of_hash.h"
#include "refract/base/units.h"

namespace refract::campaign {

using runtime::Task;

namespace {

constexpr uint64_t kTimeout_ns = 10 * kMillisecond_ns;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

void Stage::complain(const Model::Wrong& wrong) {
  if (!wrong || is_over()) return;
  outcome.wrong = fmt::format("seed {} at {} us: {}", run.seed, now_ns() / 1000, *wrong);
}

bool is_no_answer(Code code) noexcept {
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kOverloaded ||
         code == Code::kInvalidated;
}

Worker::Worker(Stage& stage, sim::Host& host, const Options& options)
    : stage_(stage),
      host_(host),
      options_(options),
      prng_(stage.world.prng().next()),
      pins_(stage.keeper.add_pin_table()) {
  loads_ = stage.world.make_reader(host, stage.keeper.memory(),
                                   {.stall_chance = options.stall_chance, .stall_ns = 600'000});
}

// Maps what the space has now.
void Worker::map() {
  reader_.reset();
  memory_.emplace(loads_->memory(), stage_.keeper.memory().image(), &pins_, looks_, options_.mutation);
  reader_.emplace(*memory_, host_.clock());
}

Task<bool> Worker::connect() {
  while (!stage_.is_over()) {
    if (session_ != nullptr && session_->state() == rpc::Session::State::kOpen) {
      if (client_ == nullptr) {
        client_ = std::make_unique<kv::RpcClient>(*session_, host_.shard(),
                                                  kv::RpcClientOptions{.timeout_ns = kTimeout_ns});
        chains_ = std::make_unique<kv::ChainClient>(
            *client_, host_.shard(), kv::ChainClientOptions{.timeout_ns = kTimeout_ns, .slots = 64});
        if (was_connected_) ++stage_.outcome.reconnects;
        was_connected_ = true;
      }
      co_return true;
    }
    if (session_ == nullptr || session_->state() == rpc::Session::State::kClosed) {
      co_await disconnect();
      const Reported<fabric::Channel*> channel = host_.domain().connect("server");
      if (channel) session_ = std::make_unique<rpc::Session>(**channel, host_.shard());
    }
    co_await host_.shard().sleep_for(20'000);
  }
  co_return false;
}

Task<> Worker::disconnect() {
  // It may be the session that runs this task.
  co_await host_.shard().sleep_for(0);
  chains_.reset();
  client_.reset();
  session_.reset();
}

Task<> Worker::work() {
  map();
  const bool connected_once = co_await connect();
  if (connected_once) co_await put_many();
  for (int i = 0; i < stage_.run.operations && !stage_.is_over(); ++i) {
    const bool connected = co_await connect();
    if (!connected) break;
    co_await step();
    // Most of what clients do is read.
    for (uint64_t reads = prng_.below(4); reads > 0 && !stage_.is_over(); --reads) {
      (void)read_directly(any_key());
    }
    if (prng_.chance(0.2)) co_await host_.shard().sleep_for(prng_.below(100'000));
  }
  while (!views_.empty()) end_view();
  co_await disconnect();
  --stage_.workers_left;
}

Task<> Worker::step() {
  const uint64_t draw = prng_.below(100);
  if (draw < 40) {
    co_await put();
  } else if (draw < 53) {
    co_await erase();
  } else if (draw < 55) {
    co_await work_in_lanes();
  } else if (draw < 63) {
    co_await change();
  } else if (draw < 65) {
    const std::string key = any_key();
    if (!read_directly(key)) co_await get(key);
  } else if (draw < 71) {
    co_await get(any_key());
  } else if (draw < 73) {
    co_await exists(any_key());
  } else if (draw < 75) {
    co_await get_many();
  } else if (draw < 78) {
    co_await put_many();
  } else if (draw < 79) {
    co_await scan();
  } else if (draw < 80) {
    scan_directly();
  } else if (draw < 92) {
    take_view();
  } else if (!views_.empty()) {
    end_view();
  }
}

// One of those that fall into one bucket, until some doublings of the table part them.
std::string Worker::crowded_key() {
  const test::KeysOfHash keys(Keeper::hash_seed({.seed = stage_.run.seed}));
  const uint64_t number = stage_.crowded_keys++;
  return keys.of_bucket(number, number % 5 == 0 ? 0x25 : 0x05, 24);
}

// A key that this worker may write. One whose fate is unknown is dropped for a new one.
std::string Worker::own_key() {
  while (keys_.size() < static_cast<size_t>(stage_.run.keys)) {
    const uint64_t number = keys_made_++;
    std::string key = fmt::format("{}.{}.", options_.name, number);
    // Long enough for two lines, or for more than one message.
    if (number % 11 == 5) key.resize(key.size() + 100, 'x');
    if (number % 17 == 3) key.resize(key.size() + 5'000, 'y');
    if (stage_.run.crowded && number % 3 != 0) key = crowded_key();
    keys_.push_back(key);
  }
  const size_t index = prng_.below(keys_.size());
  if (stage_.model.may_write(keys_[index])) return keys_[index];
  keys_.erase(keys_.begin() + static_cast<ptrdiff_t>(index));
  return own_key();
}

std::string Worker::any_key() {
  const std::vector<std::string>& keys = stage_.model.keys();
  if (keys.empty()) return "none";
  // Mostly those that are still written; the oldest have met an unknown fate.
  const size_t recent = std::min(keys.size(), size_t{200});
  if (prng_.chance(0.8)) return keys[keys.size() - 1 - prng_.below(recent)];
  return keys[prng_.below(keys.size())];
}

size_t Worker::draw_bytes() {
  if (prng_.chance(0.93)) return prng_.below(201);
  // In pieces; from 16 KiB on pinned while it is copied; above 64 KiB an extent.
  return 5'000 + prng_.below(prng_.chance(0.3) ? 95'000 : 25'000);
}

kv::RpcPutOptions Worker::draw_options(const std::string& key) {
  kv::RpcPutOptions options;
  const uint64_t draw = prng_.below(100);
  const uint64_t version = stage_.model.state(key, stage_.now_ns(), stage_.now_ns()).version;
  if (draw < 15) {
    options.if_absent = true;
  } else if (draw < 30) {
    options.if_version = version;
  } else if (draw < 37) {
    options.if_version = version + 1 + prng_.below(3);
  }
  if (prng_.chance(0.1)) options.ttl_ns = 3 * kWallError_ns + prng_.below(2 * kMillisecond_ns);
  return options;
}

// Most keys at once, as a pipeline: what retires buffers by the dozen.
Task<> Worker::put_many() {
  std::vector<Write> writes;
  std::vector<std::string> values;
  for (int i = 0; i < stage_.run.keys; ++i) {
    const std::string key = own_key();
    if (!stage_.model.may_write(key) || std::ranges::find(writes, key, &Write::key) != writes.end()) continue;
    const size_t bytes = prng_.below(201);
    writes.push_back({.key = key,
                      .number = stage_.model.begin_put(key, {.bytes = bytes}, stage_.now_ns()),
                      .begun_ns = stage_.now_ns(),
                      .version_before = stage_.model.highest_version(),
                      .options = {}});
    values.push_back(sealed_value(key, writes.back().number, bytes));
  }
  std::vector<kv::RpcClient::PutItem> items(writes.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = bytes_of(writes[i].key);
    items[i].value = bytes_of(values[i]);
  }
  co_await client_->multi_put(items);
  for (size_t i = 0; i < items.size(); ++i) end_write(writes[i], items[i].result);
}

Task<> Worker::put() {
  const std::string key = own_key();
  const kv::RpcPutOptions options = draw_options(key);
  const size_t bytes = draw_bytes();
  const Write write{
      .key = key,
      .number = stage_.model.begin_put(key, {.bytes = bytes, .ttl_ns = options.ttl_ns}, stage_.now_ns()),
      .begun_ns = stage_.now_ns(),
      .version_before = stage_.model.highest_version(),
      .options = options};
  const std::string value = sealed_value(key, write.number, bytes);
  Result<uint64_t> result = fail(Code::kUnavailable);
  if (prng_.chance(0.5)) {
    result = co_await chains_->put(bytes_of(key), bytes_of(value), options);
  } else {
    result = co_await client_->put(bytes_of(key), bytes_of(value), options);
  }
  end_write(write, result);
}

Task<> Worker::erase() {
  Write write{.key = own_key(), .options = {}, .is_erase = true};
  write.begun_ns = stage_.now_ns();
  const uint64_t version = stage_.model.state(write.key, write.begun_ns, write.begun_ns).version;
  if (prng_.chance(0.2)) write.options.if_version = version + prng_.below(2);
  write.number = stage_.model.begin_erase(write.key);
  const Result<uint64_t> result = co_await client_->erase(bytes_of(write.key), write.options.if_version);
  end_write(write, result);
}

void Worker::end_write(const Write& write, const Result<uint64_t>& result) {
  using Outcome = Model::Outcome;
  const Code code = result.code();
  judge_condition(write, result);
  if (code == Code::kOk && !write.is_erase && *result <= write.version_before) {
    stage_.complain(fmt::format("a put got version {} after {} was given", *result, write.version_before));
  }
  if (code == Code::kNoSpace) ++stage_.outcome.no_space;
  if (code == Code::kIndeterminate) ++stage_.outcome.unknown;
  stage_.complain(stage_.model.end(write.key, write.number,
                                   {.outcome = code == Code::kOk              ? Outcome::kDone
                                               : code == Code::kIndeterminate ? Outcome::kUnknown
                                                                              : Outcome::kNothing,
                                    .version = code == Code::kOk && !write.is_erase ? *result : 0,
                                    .now_ns = stage_.now_ns()}));
}

// No other worker writes the key, so its writer knows what the conditions must have met.
void Worker::judge_condition(const Write& write, const Result<uint64_t>& result) {
  const Model::State state = stage_.model.state(write.key, write.begun_ns, stage_.now_ns());
  const Code code = result.code();
  const uint64_t wanted = write.options.if_version;
  const bool must_be_there = write.is_erase || wanted != 0;
  bool right = is_no_answer(code) || code == Code::kIndeterminate;
  if (code == Code::kOk) {
    right = !(write.options.if_absent && state.is_there) && !(must_be_there && state.is_absent) &&
            (wanted == 0 || wanted == state.version) && (!write.is_erase || *result == state.version);
  } else if (code == Code::kExists) {
    right = write.options.if_absent && !state.is_absent;
  } else if (code == Code::kNotFound) {
    right = must_be_there && !state.is_there;
  } else if (code == Code::kVersionMismatch) {
    right = wanted != 0 && wanted != state.version && !state.is_absent;
  } else if (code == Code::kNoSpace) {
    right = !write.is_erase;
  }
  if (right) return;
  stage_.complain(fmt::format("{} of {} gave '{}': if_absent {} if_version {}; it has version {}{}",
                              write.is_erase ? "an erase" : "a put", write.key.substr(0, 24), info(code).text,
                              write.options.if_absent, wanted, state.version,
                              state.is_there    ? ""
                              : state.is_absent ? " and is absent"
                                                : " and may have expired"));
}

}  // namespace refract::campaign
