// SPDX-License-Identifier: Apache-2.0
// Many puts at once: small ones without identity and conditions share calls; the others, and what those left,
// are a message each; both go through a CallBatch. What turns out to be more (long keys and values, an owner
// that is busy, a lost connection) continues as a coroutine an item.
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

// Which items share which calls.
struct RpcClient::PutPlan {
  struct Run {
    size_t first;
    size_t count;
  };
  std::vector<uint32_t> together;
  std::vector<Run> runs;  // Of `together`, each a call.

  [[nodiscard]] std::span<const uint32_t> items_of(size_t run) const noexcept {
    return std::span(together).subspan(runs[run].first, runs[run].count);
  }
};

// Calls of many puts.
class RpcClient::PutManyBatch final : public CallBatch {
 public:
  PutManyBatch(RpcClient& client, std::span<PutItem> items, const PutPlan& plan, std::vector<uint32_t>& alone)
      : CallBatch(client.session_, client.shard_, plan.runs.size(),
                  CallBatcher::calls_for(client.options_.pipeline)),
        client_(client),
        items_(items),
        plan_(plan),
        alone_(alone) {}

 private:
  [[nodiscard]] Begun begin(size_t number, uint32_t place) noexcept override {
    wire::ManyBody& body = client_.batcher_->empty_body();
    for (const uint32_t index : plan_.items_of(number)) {
      const PutItem& item = items_[index];
      body.add_put(item.key, item.value, item.options.ttl_ns);
    }
    return send({.method = static_cast<uint16_t>(Method::kPutMany), .tail = body.bytes()}, place);
  }

  void settle(size_t number, const OpResult& reply) noexcept override {
    const std::span<const uint32_t> asked = plan_.items_of(number);
    if (reply.code == Code::kUnsupported) client_.batcher_->refuse();
    if (reply.code == Code::kUnsupported || reply.code == Code::kOverloaded) {
      alone_.insert(alone_.end(), asked.begin(), asked.end());
      return;
    }
    std::span<const std::byte> bytes = reply.bytes;
    Code code = reply.code;
    for (const uint32_t index : asked) {
      std::optional<wire::ManyVersion> version;
      if (code == Code::kOk) version = wire::take_many_version(bytes);
      if (code == Code::kOk && !version) code = Code::kMalformed;
      const Code outcome = version ? code_from_wire(version->code) : code;
      if (outcome == Code::kOk) {
        items_[index].result = version->version;
      } else if (version && outcome == Code::kOverloaded) {
        alone_.push_back(index);
      } else {
        items_[index].result = fail(outcome);
      }
    }
  }

  RpcClient& client_;
  std::span<PutItem> items_;
  const PutPlan& plan_;
  std::vector<uint32_t>& alone_;
};

class RpcClient::PutBatch final : public CallBatch {
 public:
  // A put to be sent (again). `first_sent_ns` 0: as the item says.
  struct Again {
    size_t item;
    uint64_t first_sent_ns;
  };

  PutBatch(RpcClient& client, std::span<PutItem> items, std::span<const uint32_t> which,
           std::vector<Again>& left)
      : CallBatch(client.session_, client.shard_, which.size(), client.options_.pipeline),
        client_(client),
        items_(items),
        which_(which),
        again_(left),
        begun_ns_(client.shard_.now_ns()) {}

 private:
  [[nodiscard]] Begun begin(size_t number, uint32_t place) noexcept override {
    const uint32_t index = which_[number];
    const PutItem& item = items_[index];
    const Writing writing = Writing::of(item.options.attempt, begun_ns_);
    Keyed call = Keyed::of_put(item.key, item.value.size(), item.options);
    call.identify(writing, session().opened_ns());
    if (writing.repeats ||
        call.front_bytes() + item.key.size() + item.value.size() > client_.body_bytes_max_) {
      again_.push_back({.item = index, .first_sent_ns = 0});
      return Begun::kSettled;
    }
    const CallHead head = call.head();
    return send({.method = call.number(), .head = head.bytes(), .tail = item.value}, place);
  }

  void settle(size_t number, const OpResult& reply) noexcept override {
    const uint32_t index = which_[number];
    PutItem& item = items_[index];
    Writing writing = Writing::of(item.options.attempt, begun_ns_);
    const Result<uint64_t> version = writing.version_of(reply);
    const bool is_lost = version.code() == Code::kIndeterminate && writing.attempt.request &&
                         !writing.is_unknowable && client_.options_.repeats_writes;
    if (is_lost || version.code() == Code::kOverloaded) {
      again_.push_back({.item = index, .first_sent_ns = is_lost ? begun_ns_ : 0});
      return;
    }
    item.result = version;
  }

  RpcClient& client_;
  std::span<PutItem> items_;
  std::span<const uint32_t> which_;
  std::vector<Again>& again_;
  const uint64_t begun_ns_;  // No item was sent earlier.
};

struct RpcClient::PutJob {
  std::span<PutItem> items;
  uint64_t deadline_ns;
  TaskTeam team;
  std::vector<PutBatch::Again> again = {};

  // What a batch had no turn for.
  void skip(uint32_t item, bool is_late) {
    if (is_late) {
      items[item].result = fail(Code::kDeadlineExceeded);
    } else {
      again.push_back({.item = item, .first_sent_ns = 0});
    }
  }
};

Task<> RpcClient::put_items(PutJob& job) {
  while (!job.again.empty()) {
    const PutBatch::Again again = job.again.back();
    job.again.pop_back();
    PutItem& item = job.items[again.item];
    RpcPutOptions options = item.options;
    if (again.first_sent_ns != 0) options.attempt.first_sent_ns = again.first_sent_ns;
    item.result = co_await put(item.key, item.value, options, job.deadline_ns);
  }
  job.team.leave();
}

bool RpcClient::may_share(const PutItem& item) const noexcept {
  const RpcPutOptions& options = item.options;
  const bool is_plain = !options.if_absent && options.if_version == 0 && !options.attempt.request;
  const size_t room = (body_bytes_max_ - sizeof(wire::ManyRequest)) / 2;
  return is_plain && item.value.size() <= CallBatcher::kPutValueBytesMax &&
         sizeof(wire::PutOfMany) + item.key.size() + item.value.size() <= room;
}

// Those that share calls, and in which; the others are left to go alone, or have their outcome.
RpcClient::PutPlan RpcClient::plan_puts(std::span<PutItem> items, std::vector<uint32_t>& alone) const {
  PutPlan plan;
  const bool shares = items.size() > 1 && !batcher_->is_refused();
  (shares ? plan.together : alone).reserve(items.size());
  if (shares) plan.runs.reserve(items.size() / wire::kKeysPerCall + 1);
  size_t bytes = 0;  // Of the run that is open.
  for (uint32_t i = 0; i < items.size(); ++i) {
    const PutItem& item = items[i];
    if (const Code code = check_lengths(item.key, item.value.size()); code != Code::kOk) {
      items[i].result = fail(code);
    } else if (!shares || !may_share(item)) {
      alone.push_back(i);
    } else {
      const size_t more = sizeof(wire::PutOfMany) + item.key.size() + item.value.size();
      const bool fits = !plan.runs.empty() && plan.runs.back().count < wire::kKeysPerCall &&
                        bytes + more <= body_bytes_max_;
      if (!fits) {
        plan.runs.push_back({.first = plan.together.size(), .count = 0});
        bytes = sizeof(wire::ManyRequest);
      }
      bytes += more;
      ++plan.runs.back().count;
      plan.together.push_back(i);
    }
  }
  return plan;
}

Task<> RpcClient::multi_put(std::span<PutItem> items, uint64_t deadline_ns) {
  PutJob job{.items = items, .deadline_ns = deadline_ns, .team = TaskTeam(shard_)};
  std::vector<uint32_t> alone;
  const PutPlan plan = plan_puts(items, alone);
  if (!plan.runs.empty()) {
    PutManyBatch batch(*this, items, plan, alone);
    co_await batch.run(deadline_ns, options_.timeout_ns);
    for (size_t i = batch.begun(); i < plan.runs.size(); ++i) {
      for (const uint32_t item : plan.items_of(i)) job.skip(item, batch.is_late());
    }
  }
  if (!alone.empty()) {
    PutBatch batch(*this, items, alone, job.again);
    co_await batch.run(deadline_ns, options_.timeout_ns);
    for (size_t i = batch.begun(); i < alone.size(); ++i) job.skip(alone[i], batch.is_late());
  }
  const size_t left = job.again.size();
  // They are taken from the end: in the order of the items, and so of one key the last one stays.
  std::ranges::reverse(job.again);
  for (size_t i = 0; i < std::min(options_.pipeline, left); ++i) job.team.add(put_items(job));
  if (left > 0) co_await job.team.run();
}

}  // namespace refract::kv
