// SPDX-License-Identifier: Apache-2.0
// Many puts at once. Those that are one message each way go through a CallBatch; what turns out to be more
// (long keys and values, an owner that is busy, a lost connection) goes on as a coroutine an item.
#include <algorithm>
#include <utility>
#include <vector>

#include "refract/kv/call_batch.h"
#include "refract/kv/rpc_client_calls.h"
#include "refract/kv/rpc_client_parts.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

class RpcClient::PutBatch final : public CallBatch {
 public:
  // A put to be sent (again). `first_sent_ns` 0: as the item says.
  struct Again {
    size_t item;
    uint64_t first_sent_ns;
  };

  PutBatch(RpcClient& client, std::span<PutItem> items)
      : CallBatch(client.session_, client.shard_, items.size(), client.options_.pipeline),
        client_(client),
        items_(items),
        begun_ns_(client.shard_.now_ns()) {}

  std::vector<Again> again;

 private:
  [[nodiscard]] Begun begin(size_t index, uint32_t place) noexcept override {
    PutItem& item = items_[index];
    if (const Code code = check_lengths(item.key, item.value.size()); code != Code::kOk) {
      item.result = fail(code);
      return Begun::kSettled;
    }
    const Writing writing = Writing::of(item.options.attempt, begun_ns_);
    Keyed call = Keyed::of_put(item.key, item.value.size(), item.options);
    call.identify(writing, session().opened_ns());
    if (writing.repeats ||
        call.front_bytes() + item.key.size() + item.value.size() > client_.body_bytes_max_) {
      again.push_back({.item = index, .first_sent_ns = 0});
      return Begun::kSettled;
    }
    const CallHead head = call.head();
    return send({.method = call.number(), .head = head.bytes(), .tail = item.value}, place);
  }

  void settle(size_t index, const OpResult& reply) noexcept override {
    PutItem& item = items_[index];
    Writing writing = Writing::of(item.options.attempt, begun_ns_);
    const Result<uint64_t> version = writing.version_of(reply);
    const bool is_lost = version.code() == Code::kIndeterminate && writing.attempt.request &&
                         !writing.is_unknowable && client_.options_.repeats_writes;
    if (is_lost || version.code() == Code::kOverloaded) {
      again.push_back({.item = index, .first_sent_ns = is_lost ? begun_ns_ : 0});
      return;
    }
    item.result = version;
  }

  RpcClient& client_;
  std::span<PutItem> items_;
  const uint64_t begun_ns_;  // No item was sent earlier.
};

struct RpcClient::PutJob {
  std::span<PutItem> items;
  uint64_t deadline_ns;
  PutBatch batch;
  TaskTeam team;
};

Task<> RpcClient::put_items(PutJob& job) {
  while (!job.batch.again.empty()) {
    const PutBatch::Again again = job.batch.again.back();
    job.batch.again.pop_back();
    PutItem& item = job.items[again.item];
    RpcPutOptions options = item.options;
    if (again.first_sent_ns != 0) options.attempt.first_sent_ns = again.first_sent_ns;
    item.result = co_await put(item.key, item.value, options, job.deadline_ns);
  }
  job.team.leave();
}

Task<> RpcClient::multi_put(std::span<PutItem> items, uint64_t deadline_ns) {
  PutJob job{
      .items = items, .deadline_ns = deadline_ns, .batch = PutBatch(*this, items), .team = TaskTeam(shard_)};
  co_await job.batch.run(deadline_ns, options_.timeout_ns);
  for (size_t i = job.batch.begun(); i < items.size(); ++i) {
    if (job.batch.is_late()) {
      items[i].result = fail(Code::kDeadlineExceeded);
    } else {
      job.batch.again.push_back({.item = i, .first_sent_ns = 0});
    }
  }
  const size_t left = job.batch.again.size();
  for (size_t i = 0; i < std::min(options_.pipeline, left); ++i) job.team.add(put_items(job));
  if (left > 0) co_await job.team.run();
}

}  // namespace refract::kv
