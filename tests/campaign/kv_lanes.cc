// SPDX-License-Identifier: Apache-2.0
// Some workers that put and get side by side over one session: what one of them begins when its answer comes
// shares a call with what the others begin then.
#include <algorithm>
#include <span>

#include "tests/campaign/kv_worker.h"

#include "refract/kv/calls/rpc_client_attempts.h"
#include "refract/kv/calls/task_team.h"

namespace refract::campaign {

using runtime::Task;

namespace {

constexpr size_t kLanes = 8;
constexpr int kRounds = 3;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Task<> Worker::work_in_lanes() {
  // Each lane has a key of its own to write.
  std::vector<std::string> keys;
  for (size_t i = 0; i < kLanes; ++i) {
    const std::string key = own_key();
    if (stage_.model.may_write(key) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  const uint64_t calls_before = session_->counts().calls;
  uint64_t operations = 0;
  kv::TaskTeam team(host_.shard());
  for (const std::string& key : keys) team.add(work_in_lane(key, operations, team));
  co_await team.run();
  const uint64_t calls = session_->counts().calls - calls_before;
  stage_.outcome.shared += operations - std::min(operations, calls);
}

Task<> Worker::work_in_lane(std::string key, uint64_t& operations, kv::TaskTeam& team) {
  for (int round = 0; round < kRounds && stage_.model.may_write(key); ++round) {
    co_await put_by_attempt(key);
    co_await get_by_attempt(any_key());
    co_await get_by_attempt(key);
    operations += 3;
  }
  team.leave();
}

Task<> Worker::put_by_attempt(const std::string& key) {
  const size_t bytes = draw_bytes();
  const uint64_t ttl_ns = prng_.chance(0.1) ? 3 * kWallError_ns + prng_.below(2 * kMillisecond_ns) : 0;
  const Write write{
      .key = key,
      .number = stage_.model.begin_put(key, {.bytes = bytes, .ttl_ns = ttl_ns}, stage_.now_ns()),
      .begun_ns = stage_.now_ns(),
      .version_before = stage_.model.highest_version(),
      .options = {.ttl_ns = ttl_ns}};
  const std::string value = sealed_value(key, write.number, bytes);
  std::optional<Result<uint64_t>> version;
  {
    kv::RpcClient::PutAttempt attempt(*client_,
                                      {.key = bytes_of(key), .value = bytes_of(value), .ttl_ns = ttl_ns});
    if (attempt.is_sent()) version = co_await attempt;
  }
  if (!version) version = co_await client_->put(bytes_of(key), bytes_of(value), write.options);
  end_write(write, *version);
}

Task<> Worker::get_by_attempt(std::string key) {
  const Model::Moment before = stage_.model.moment(key, stage_.now_ns());
  std::string value;
  kv::StringSink sink(value);
  std::optional<Result<kv::Got>> got;
  {
    kv::RpcClient::GetAttempt attempt(*client_, bytes_of(key), sink);
    if (attempt.is_sent()) {
      got = co_await attempt;
      if (!got) got = co_await attempt.finish();
    }
  }
  if (!got) got = co_await client_->get(bytes_of(key), sink);
  judge_got(key, before, *got, &value);
}

}  // namespace refract::campaign
