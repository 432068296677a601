// SPDX-License-Identifier: Apache-2.0
// Many gets at once: first as many keys in a call as their values let fit, then what that leaves (long keys
// and values, an owner that does not know such calls) by a message each; both through a CallBatch. What turns
// out to be more (values longer than a message, an owner that is busy, a lost connection) continues as a
// coroutine an item.
#include <algorithm>
#include <utility>
#include <vector>

#include "refract/kv/calls/call_batch.h"
#include "refract/kv/calls/call_batcher.h"
#include "refract/kv/calls/rpc_client_calls.h"
#include "refract/kv/calls/rpc_client_parts.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;
using wire::Method;

// What several batches leave to each other, by the items' numbers.
struct RpcClient::Left {
  // An answer whose value is longer than a message; the view is open.
  struct Opened {
    size_t item;
    GetAnswer answer;
  };

  std::vector<uint32_t> alone;  // For a message each.
  std::vector<uint32_t> again;  // For a coroutine each.
  std::vector<Opened> opened;

  [[nodiscard]] static bool is_passing(Code code) noexcept {
    return code == Code::kOverloaded || code == Code::kInvalidated;
  }
};

// Calls of many keys.
class RpcClient::ManyBatch final : public CallBatch {
 public:
  ManyBatch(RpcClient& client, std::span<GetItem> items, std::span<const uint32_t> which, size_t width,
            Left& left)
      : CallBatch(client.session_, client.shard_, (which.size() + width - 1) / width,
                  CallBatcher::calls_for(client.options_.pipeline)),
        client_(client),
        items_(items),
        which_(which),
        width_(width),
        left_(left) {}

  // The items of a call.
  [[nodiscard]] std::span<const uint32_t> items_of(size_t call) const noexcept {
    const size_t first = call * width_;
    return which_.subspan(first, std::min(width_, which_.size() - first));
  }

 private:
  [[nodiscard]] Begun begin(size_t number, uint32_t place) noexcept override {
    wire::ManyBody& body = client_.batcher_->empty_body();
    for (const uint32_t item : items_of(number)) body.add_get(items_[item].key);
    return send({.method = static_cast<uint16_t>(Method::kGetMany), .tail = body.bytes()}, place);
  }

  void settle(size_t number, const OpResult& reply) noexcept override {
    const std::span<const uint32_t> asked = items_of(number);
    Code code = client_.read_outcome(reply.code);
    if (code == Code::kUnsupported) client_.batcher_->refuse();
    if (code == Code::kUnsupported || Left::is_passing(code)) {
      left_.alone.insert(left_.alone.end(), asked.begin(), asked.end());
      return;
    }
    std::span<const std::byte> bytes = reply.bytes;
    for (const uint32_t item : asked) {
      std::optional<wire::ManyAnswer> answer;
      if (code == Code::kOk) answer = wire::take_many_answer(bytes);
      if (code == Code::kOk && !answer) code = Code::kMalformed;
      if (answer) {
        settle_one(item, *answer);
      } else {
        items_[item].result = fail(code);
      }
    }
  }

  void settle_one(uint32_t item, const wire::ManyAnswer& answer) noexcept {
    client_.batcher_->saw_value(answer.entry.value_bytes);
    if (answer.code == Code::kTooLarge) return left_.alone.push_back(item);
    if (Left::is_passing(answer.code)) return left_.again.push_back(item);
    Got got;
    const Code code = answer.code == Code::kOk ? give(answer, *items_[item].sink, got) : answer.code;
    items_[item].result = code == Code::kOk ? Result<Got>(got) : fail(code);
  }

  RpcClient& client_;
  std::span<GetItem> items_;
  std::span<const uint32_t> which_;
  const size_t width_;
  Left& left_;
};

// A call for each key.
class RpcClient::GetBatch final : public CallBatch {
 public:
  GetBatch(RpcClient& client, std::span<GetItem> items, std::span<const uint32_t> which, Left& left)
      : CallBatch(client.session_, client.shard_, which.size(), client.options_.pipeline),
        client_(client),
        items_(items),
        which_(which),
        left_(left) {}

 private:
  [[nodiscard]] Begun begin(size_t number, uint32_t place) noexcept override {
    const uint32_t item = which_[number];
    const std::span<const std::byte> key = items_[item].key;
    const Keyed call = Keyed::of_get(key, client_.prefers_one_sided());
    if (call.front_bytes() + key.size() > client_.body_bytes_max_) {
      left_.again.push_back(item);
      return Begun::kSettled;
    }
    const CallHead head = call.head();
    return send({.method = call.number(), .head = head.bytes()}, place);
  }

  void settle(size_t number, const OpResult& reply) noexcept override {
    const uint32_t item = which_[number];
    const Code code = client_.read_outcome(reply.code);
    if (Left::is_passing(code)) return left_.again.push_back(item);
    if (code != Code::kOk) {
      items_[item].result = fail(code);
      return;
    }
    GetAnswer answer;
    const Code taken = take_get_answer(reply.bytes, client_.prefers_one_sided(), *items_[item].sink, answer);
    if (taken == Code::kOk) client_.batcher_->saw_value(answer.got.value_bytes);
    if (taken == Code::kOk && answer.view != 0) return left_.opened.push_back({item, answer});
    const OpenHandle view(session(), Method::kViewClose, answer.view);
    items_[item].result = taken == Code::kOk ? Result<Got>(answer.got) : fail(taken);
  }

  RpcClient& client_;
  std::span<GetItem> items_;
  std::span<const uint32_t> which_;
  Left& left_;
};

struct RpcClient::GetJob {
  GetJob(RpcClient& asking, std::span<GetItem> asked, uint64_t until_ns)
      : client(asking), items(asked), deadline_ns(until_ns), team(asking.shard_) {}
  GetJob(const GetJob&) = delete;
  GetJob& operator=(const GetJob&) = delete;
  ~GetJob() {
    for (const Left::Opened& value : left.opened)
      const OpenHandle view(client.session_, Method::kViewClose, value.answer.view);
  }

  RpcClient& client;
  std::span<GetItem> items;
  uint64_t deadline_ns;
  TaskTeam team;
  Left left;

  // What a batch had no turn for.
  void skip(uint32_t item, bool is_late) {
    if (is_late) {
      items[item].result = fail(Code::kDeadlineExceeded);
    } else {
      left.again.push_back(item);
    }
  }
};

Task<> RpcClient::get_items(GetJob& job) {
  for (;;) {
    if (!job.left.opened.empty()) {
      const Left::Opened value = job.left.opened.back();
      job.left.opened.pop_back();
      GetItem& item = job.items[value.item];
      OpenHandle view(session_, Method::kViewClose, value.answer.view);
      const Code code = co_await read_view(ViewRest::of(value.answer), job.deadline_ns);
      if (code == Code::kOk) view.forget();
      item.result = code == Code::kOk ? Result<Got>(value.answer.got) : fail(code);
      if (code == Code::kInvalidated) job.left.again.push_back(static_cast<uint32_t>(value.item));
    } else if (!job.left.again.empty()) {
      GetItem& item = job.items[job.left.again.back()];
      job.left.again.pop_back();
      item.result = co_await get(item.key, *item.sink, job.deadline_ns);
    } else {
      break;
    }
  }
  job.team.leave();
}

// Those that go together; the others are left to go alone, or have their outcome.
std::vector<uint32_t> RpcClient::sort_out(GetJob& job, bool goes_together) const {
  std::vector<uint32_t> together;
  std::vector<uint32_t>& alone = job.left.alone;
  (goes_together ? together : alone).reserve(job.items.size());
  for (uint32_t i = 0; i < job.items.size(); ++i) {
    const std::span<const std::byte> key = job.items[i].key;
    if (const Code code = check_lengths(key, 0); code != Code::kOk) {
      job.items[i].result = fail(code);
    } else {
      (goes_together && key.size() <= batcher_->key_bytes_max() ? together : alone).push_back(i);
    }
  }
  return together;
}

Task<> RpcClient::multi_get(std::span<GetItem> items, uint64_t deadline_ns) {
  GetJob job(*this, items, deadline_ns);
  const size_t width = batcher_->width();
  const std::vector<uint32_t> together = sort_out(job, width > 1 && items.size() > 1);
  if (!together.empty()) {
    ManyBatch batch(*this, items, together, width, job.left);
    co_await batch.run(deadline_ns, options_.timeout_ns);
    for (size_t i = batch.begun() * width; i < together.size(); ++i) job.skip(together[i], batch.is_late());
  }
  if (!job.left.alone.empty()) {
    const std::vector<uint32_t> alone = std::move(job.left.alone);
    GetBatch batch(*this, items, alone, job.left);
    co_await batch.run(deadline_ns, options_.timeout_ns);
    for (size_t i = batch.begun(); i < alone.size(); ++i) job.skip(alone[i], batch.is_late());
  }
  const size_t left = job.left.opened.size() + job.left.again.size();
  for (size_t i = 0; i < std::min(options_.pipeline, left); ++i) job.team.add(get_items(job));
  if (left > 0) co_await job.team.run();
}

}  // namespace refract::kv
