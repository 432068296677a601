// SPDX-License-Identifier: Apache-2.0
// Many gets or puts at once by chains: the first chains of all leave in one turn, each reply sends its item's
// next one, and no item costs a coroutine. What only the owner can do goes to it together, as calls.
#include <algorithm>
#include <optional>
#include <vector>

#include "refract/kv/calls/call_batch.h"
#include "refract/kv/calls/rpc_client_calls.h"
#include "refract/kv/calls/task_team.h"
#include "refract/kv/chains/chain_client_parts.h"
#include "refract/prism/chain.h"
#include "refract/prism/reply.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

template <typename Machine, typename Item>
class ChainClient::Batch : public CallBatch {
 public:
  std::vector<size_t> by_rpc;  // Items that chains can do nothing for.
  std::vector<size_t> again;   // Items that found no room for their next chain: nothing has changed yet.

 protected:
  using State = typename Machine::State;

  Batch(ChainClient& chains, std::span<Item> all)
      : CallBatch(chains.session_, chains.shard_, all.size(), chains.options_.pipeline),
        client_(chains),
        items_(all),
        message_(chains, kSearchBytesMax),
        asked_(std::min(all.size(), chains.options_.pipeline)) {}

  // The machine for an item; nothing: the item is settled, or in by_rpc.
  [[nodiscard]] virtual std::optional<Machine> machine_of(size_t item) noexcept = 0;
  // Its result. REQUIRES: the state is not kAsks and not kByRpc.
  virtual void end(size_t item, const Machine& machine, State state) noexcept = 0;
  // Likewise, of a chain that got no answer.
  virtual void fail_with(size_t item, const Machine& machine, Code code) noexcept = 0;

  void leave_to_owner(size_t item, ByRpc why) {
    client_.count_by_rpc(why);
    by_rpc.push_back(item);
  }

  ChainClient& client_;
  std::span<Item> items_;

 private:
  struct Asked {
    std::optional<Machine> machine;
    uint64_t epoch = 0;
    size_t operations = 0;
    bool is_under_way = false;
  };

  [[nodiscard]] Begun begin(size_t item, uint32_t place) noexcept override {
    Asked& asked = asked_[place];
    asked.machine.reset();
    if (std::optional<Machine> machine = machine_of(item)) asked.machine.emplace(*machine);
    if (!asked.machine) return Begun::kSettled;
    asked.epoch = client_.epoch_;
    return proceed(item, place, asked.machine->begin());
  }

  // Sends the next chain, or settles the item.
  [[nodiscard]] Begun proceed(size_t item, uint32_t place, State state) noexcept {
    Asked& asked = asked_[place];
    if (state == State::kAsks) {
      message_.grow(bytes_of_chain(*asked.machine));
      prism::Chain chain(message_.room());
      asked.machine->build(chain);
      const Result<std::span<const std::byte>> bytes = chain.finish();
      const rpc::Call call = {.method = prism::kChainMethod,
                              .tail = bytes ? *bytes : std::span<const std::byte>()};
      if (bytes && session().fits(call)) {
        asked.operations = chain.operations();
        const Begun begun = send(call, place);
        asked.is_under_way = begun == Begun::kSent;
        client_.link_.counts.chains += asked.is_under_way ? 1 : 0;
        return begun;
      }
      state = asked.machine->give_up(ByRpc::kRefused);
    }
    if (state == State::kByRpc) {
      leave_to_owner(item, asked.machine->why());
    } else {
      end(item, *asked.machine, state);
    }
    return Begun::kSettled;
  }

  [[nodiscard]] bool goes_on(size_t item, uint32_t place, const OpResult& reply) noexcept override {
    Asked& asked = asked_[place];
    asked.is_under_way = false;
    const Result<prism::Reply> answer =
        reply.code == Code::kOk ? prism::Reply::of(reply.bytes, asked.operations) : fail(reply.code);
    if (ends_with(answer.code())) {
      fail_with(item, *asked.machine, answer.code());
      return false;
    }
    const Begun begun = proceed(item, place, client_.take(*asked.machine, answer, asked.epoch));
    if (begun == Begun::kNotNow) again.push_back(item);
    return begun == Begun::kSent;
  }

  // Only what is given up comes here.
  void settle(size_t item, const OpResult& reply) noexcept override {
    for (size_t place = 0; place < asked_.size(); ++place) {
      Asked& asked = asked_[place];
      if (!asked.is_under_way || item_at(static_cast<uint32_t>(place)) != item) continue;
      asked.is_under_way = false;
      fail_with(item, *asked.machine, reply.code);
    }
  }

  Message message_;
  std::vector<Asked> asked_;
};

class ChainClient::GetBatch final : public Batch<ChainSearch, RpcClient::GetItem> {
 public:
  GetBatch(ChainClient& chains, std::span<RpcClient::GetItem> all) : Batch(chains, all) {}

 private:
  [[nodiscard]] std::optional<ChainSearch> machine_of(size_t item) noexcept override {
    const HashedKey key(items_[item].key, items_[item].hash);
    if (const Code code = check_lengths(key.bytes(), 0); code != Code::kOk) {
      items_[item].result = fail(code);
      return {};
    }
    return ChainSearch(client_.link_, {.key = key.bytes(), .hash = client_.hash(key), .value = true});
  }
  void end(size_t item, const ChainSearch& search, ChainSearch::State state) noexcept override {
    items_[item].result = client_.end_get(search, state, items_[item].sink);
  }
  void fail_with(size_t item, const ChainSearch& /*search*/, Code code) noexcept override {
    items_[item].result = fail(client_.read_outcome(code));
  }
};

class ChainClient::PutBatch final : public Batch<ChainPut, RpcClient::PutItem> {
 public:
  PutBatch(ChainClient& chains, std::span<RpcClient::PutItem> all) : Batch(chains, all) {}

 private:
  [[nodiscard]] std::optional<ChainPut> machine_of(size_t index) noexcept override {
    RpcClient::PutItem& item = items_[index];
    if (const Code code = check_lengths(item.key, item.value.size()); code != Code::kOk) {
      item.result = fail(code);
      return {};
    }
    const ChainPut put = client_.put_of(HashedKey(item.key, item.hash), item.value, item.options);
    if (const std::optional<ByRpc> why = client_.needs_owner(put, item.options)) {
      leave_to_owner(index, *why);
      return {};
    }
    return put;
  }
  void end(size_t item, const ChainPut& put, ChainPut::State /*state*/) noexcept override {
    items_[item].result = client_.end_put(put);
  }
  void fail_with(size_t item, const ChainPut& put, Code code) noexcept override {
    items_[item].result = fail(put.may_change() ? code : client_.read_outcome(code));
  }
};

// What is left, one after the other for each member of a team.
template <typename Item>
struct ChainClient::Job {
  std::span<Item> items;
  std::vector<size_t>& left;
  uint64_t deadline_ns;
  TaskTeam& team;
};

Task<Result<Got>> ChainClient::again(RpcClient::GetItem& item, uint64_t deadline_ns) {
  return get({item.key, item.hash}, *item.sink, deadline_ns);
}

Task<Result<uint64_t>> ChainClient::again(RpcClient::PutItem& item, uint64_t deadline_ns) {
  return put({item.key, item.hash}, item.value, item.options, deadline_ns);
}

template <typename Item>
Task<> ChainClient::run_items(Job<Item>& job) {
  while (!job.left.empty()) {
    Item& item = job.items[job.left.back()];
    job.left.pop_back();
    item.result = co_await again(item, job.deadline_ns);
  }
  job.team.leave();
}

namespace {

Task<> ask_owner(RpcClient& rpc, std::span<RpcClient::GetItem> items, uint64_t deadline_ns) {
  return rpc.multi_get(items, deadline_ns);
}
Task<> ask_owner(RpcClient& rpc, std::span<RpcClient::PutItem> items, uint64_t deadline_ns) {
  return rpc.multi_put(items, deadline_ns);
}

}  // namespace

template <typename TheBatch, typename Item>
Task<> ChainClient::run_many(std::span<Item> items, uint64_t deadline_ns) {
  // One attaches for all.
  const Code attached = co_await attach(deadline_ns);
  if (is_lost(attached)) {
    for (Item& item : items) item.result = fail(attached);
    co_return;
  }
  if (attached != Code::kOk) {
    link_.counts.by_rpc[static_cast<size_t>(ByRpc::kNotAttached)] += items.size();
    co_await ask_owner(rpc_, items, deadline_ns);
    co_return;
  }
  TheBatch batch(*this, items);
  co_await batch.run(deadline_ns, options_.timeout_ns);
  for (size_t i = batch.begun(); i < items.size(); ++i) {
    if (batch.is_late()) {
      items[i].result = fail(Code::kDeadlineExceeded);
    } else {
      batch.again.push_back(i);
    }
  }
  if (!batch.by_rpc.empty()) {
    std::vector<Item> asked;
    asked.reserve(batch.by_rpc.size());
    for (const size_t index : batch.by_rpc) asked.push_back(items[index]);
    co_await ask_owner(rpc_, asked, deadline_ns);
    for (size_t i = 0; i < asked.size(); ++i) items[batch.by_rpc[i]].result = asked[i].result;
  }
  if (batch.again.empty()) co_return;
  TaskTeam team(shard_);
  Job<Item> job{.items = items, .left = batch.again, .deadline_ns = deadline_ns, .team = team};
  const size_t members = std::min(batch.again.size(), options_.pipeline);
  for (size_t i = 0; i < members; ++i) team.add(run_items(job));
  co_await team.run();
}

Task<> ChainClient::multi_get(std::span<RpcClient::GetItem> items, uint64_t deadline_ns) {
  return run_many<GetBatch>(items, deadline_ns);
}

Task<> ChainClient::multi_put(std::span<RpcClient::PutItem> items, uint64_t deadline_ns) {
  return run_many<PutBatch>(items, deadline_ns);
}

}  // namespace refract::kv
