// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/chains/chain_client.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "refract/kv/calls/rpc_client_calls.h"
#include "refract/kv/chains/chain_client_parts.h"
#include "refract/prism/chain.h"
#include "refract/prism/limits.h"
#include "refract/prism/operation.h"
#include "refract/prism/reply.h"
#include "refract/runtime/block_or.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

ChainClient::ChainClient(RpcClient& rpc, runtime::Shard& shard, const ChainClientOptions& options)
    : AttachedClient(rpc, shard, options.timeout_ns),
      chains_(session_),
      options_(options),
      link_(options.slots) {}

uint64_t ChainClient::hash(const HashedKey& key) const noexcept {
  return key.hash(link_.geometry.hash_seed());
}

Task<Code> ChainClient::learn(uint64_t deadline_ns) {
  Code code = co_await attach_with(kChainWriteRights, deadline_ns);
  // Where only reading is allowed, puts go to the owner.
  if (code == Code::kAccessDenied) {
    code = co_await attach_with(prism::ChainRights{prism::ChainRights::kRead}, deadline_ns);
  }
  if (code == Code::kOk) code = co_await read_geometry(deadline_ns);
  co_return code;
}

Task<Code> ChainClient::attach_with(prism::ChainRights rights, uint64_t deadline_ns) {
  const Result<prism::Attachment> attachment = co_await chains_.attach(kChainStoreName, rights, deadline_ns);
  if (!attachment) co_return read_outcome(attachment.code());
  // The same key is that of the same session, for which another operation has attached meanwhile.
  if (attachment->key != link_.key) {
    ++epoch_;
    link_.slots.clear();
  }
  link_.key = attachment->key;
  link_.region = attachment->region;
  link_.rights = attachment->rights;
  link_.reply_bytes_max = session_.payload_bytes_max();
  co_return Code::kOk;
}

Task<Code> ChainClient::read_geometry(uint64_t deadline_ns) {
  Message message(*this, kSearchBytesMax);
  prism::Chain chain(message.room());
  chain.read(link_.at({0}), link_.key, TableGeometry::kFrontBytes);
  const Result<prism::Reply> reply = co_await chains_.run(chain, deadline_ns);
  if (!reply) co_return read_outcome(reply.code());
  std::array<std::byte, TableGeometry::kFrontBytes> front;
  if (reply->code(0) != Code::kOk || reply->bytes(0).size() != front.size()) co_return Code::kMalformed;
  copy_possibly_torn(front.data(), reply->bytes(0).data(), front.size());
  std::optional<TableGeometry> geometry = TableGeometry::of_front(front);
  if (!geometry) co_return Code::kMalformed;
  link_.geometry = std::move(*geometry);
  co_return Code::kOk;
}

template <typename Machine>
Task<Code> ChainClient::run(Machine& machine, typename Machine::State& state, uint64_t deadline_ns) {
  const uint64_t epoch = epoch_;
  Message message(*this, bytes_of_chain(machine));
  while (state == Machine::State::kAsks) {
    prism::Chain chain(message.room());
    machine.build(chain);
    ++link_.counts.chains;
    const Result<prism::Reply> reply = co_await chains_.run(chain, deadline_ns);
    if (ends_with(reply.code())) co_return reply.code();
    state = take(machine, reply, epoch);
  }
  co_return Code::kOk;
}

template <typename Machine>
Code ChainClient::run_and_wait(Machine& machine, typename Machine::State& state, uint64_t deadline_ns) {
  const uint64_t epoch = epoch_;
  Message message(*this, bytes_of_chain(machine));
  while (state == Machine::State::kAsks) {
    prism::Chain chain(message.room());
    machine.build(chain);
    const Result<std::span<const std::byte>> bytes = chain.finish();
    if (!bytes) {
      state = take<Machine>(machine, fail(bytes.error()), epoch);
      break;
    }
    ++link_.counts.chains;
    const rpc::Call call = {.method = prism::kChainMethod, .tail = *bytes};
    // Without a deadline the clock is not read before the chain has left.
    const OpResult result = deadline_ns != 0 ? session_.call_and_wait(call, deadline_ns)
                                             : session_.call_and_wait_within(call, options_.timeout_ns);
    const Result<prism::Reply> reply =
        result.code == Code::kOk ? prism::Reply::of(result.bytes, chain.operations()) : fail(result.code);
    if (ends_with(reply.code())) return reply.code();
    state = take(machine, reply, epoch);
  }
  return Code::kOk;
}

Result<Got> ChainClient::end_get(const ChainSearch& search, ChainSearch::State state,
                                 ValueSink* sink) noexcept {
  ++link_.counts.gets;
  link_.counts.known_slots += search.was_known() ? 1 : 0;
  if (state == ChainSearch::State::kAbsent) return fail(Code::kNotFound);
  const ChainSearch::Match& found = search.found();
  const Lengths lengths = found.lengths;
  if (sink != nullptr) {
    std::byte* const room = sink->room(lengths.value_bytes);
    if (room == nullptr) return fail(Code::kTooLarge);
    if (lengths.value_bytes > 0) {
      copy_possibly_torn(room, found.buffer.data() + lengths.value_at(), lengths.value_bytes);
    }
  }
  return Got{.version = found.stamp, .value_bytes = lengths.value_bytes, .expires_wall_ns = 0};
}

Task<Result<Got>> ChainClient::get(HashedKey key, ValueSink& sink, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key.bytes(), 0); code != Code::kOk) co_return fail(code);
  const Code attached = co_await attach(deadline_ns);
  if (is_lost(attached)) co_return fail(attached);
  ByRpc why = ByRpc::kNotAttached;
  if (attached == Code::kOk) {
    ChainSearch search(link_, {.key = key.bytes(), .hash = hash(key), .value = true});
    ChainSearch::State state = search.begin();
    const Code code = co_await run(search, state, deadline_or_default(deadline_ns));
    if (code != Code::kOk) co_return fail(read_outcome(code));
    if (state != ChainSearch::State::kByRpc) co_return end_get(search, state, &sink);
    why = search.why();
  }
  count_by_rpc(why);
  const Result<Got> got = co_await rpc_.get(key.bytes(), sink, deadline_ns);
  co_return got;
}

Task<Result<Got>> ChainClient::exists(HashedKey key, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key.bytes(), 0); code != Code::kOk) co_return fail(code);
  const Code attached = co_await attach(deadline_ns);
  if (is_lost(attached)) co_return fail(attached);
  ByRpc why = ByRpc::kNotAttached;
  if (attached == Code::kOk) {
    ChainSearch search(link_, {.key = key.bytes(), .hash = hash(key)});
    ChainSearch::State state = search.begin();
    const Code code = co_await run(search, state, deadline_or_default(deadline_ns));
    if (code != Code::kOk) co_return fail(read_outcome(code));
    if (state != ChainSearch::State::kByRpc) co_return end_get(search, state, nullptr);
    why = search.why();
  }
  count_by_rpc(why);
  const Result<Got> got = co_await rpc_.exists(key.bytes(), deadline_ns);
  co_return got;
}

Result<Got> ChainClient::get_and_wait(const HashedKey& key, ValueSink& sink, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key.bytes(), 0); code != Code::kOk) return fail(code);
  if (attached() != Code::kOk)
    return runtime::block_or(Code::kDeadlineExceeded, shard_, get(key, sink, deadline_ns));
  ChainSearch search(link_, {.key = key.bytes(), .hash = hash(key), .value = true});
  ChainSearch::State state = search.begin();
  const Code code = run_and_wait(search, state, deadline_ns);
  if (code != Code::kOk) return fail(read_outcome(code));
  if (state != ChainSearch::State::kByRpc) return end_get(search, state, &sink);
  count_by_rpc(search.why());
  return rpc_.get_and_wait(key.bytes(), sink, deadline_ns);
}

// Why the put must go to the owner; nothing: it may go by chains.
std::optional<ByRpc> ChainClient::needs_owner(const ChainPut& put,
                                              const RpcPutOptions& options) const noexcept {
  if (!may_write()) return ByRpc::kNotAttached;
  if (options.if_absent || options.ttl_ns != 0 || options.attempt.request) return ByRpc::kConditional;
  const bool fits = options.front.empty() && put.chain_bytes() <= session_.payload_bytes_max() &&
                    put.entry_bytes() <= prism::kTransferBytesMax;
  if (!fits) return ByRpc::kLarge;
  return std::nullopt;
}

ChainPut ChainClient::put_of(const HashedKey& key, std::span<const std::byte> value,
                             const RpcPutOptions& options) noexcept {
  return ChainPut(link_, {.key = key.bytes(),
                          .hash = hash(key),
                          .value = value,
                          .if_version = options.if_version,
                          .compares_stamp = options_.compares_stamp});
}

Result<uint64_t> ChainClient::end_put(const ChainPut& put) noexcept {
  ++link_.counts.puts;
  link_.counts.known_slots += put.was_known() ? 1 : 0;
  return put.result();
}

Task<Result<uint64_t>> ChainClient::put(HashedKey key, std::span<const std::byte> value,
                                        RpcPutOptions options, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key.bytes(), value.size()); code != Code::kOk) co_return fail(code);
  const Code attached = co_await attach(deadline_ns);
  if (is_lost(attached)) co_return fail(attached);
  ChainPut put = put_of(key, value, options);
  std::optional<ByRpc> why = needs_owner(put, options);
  if (!why) {
    ChainPut::State state = put.begin();
    const Code code = co_await run(put, state, deadline_or_default(deadline_ns));
    if (code != Code::kOk) co_return fail(put.may_change() ? code : read_outcome(code));
    if (state == ChainPut::State::kDone) co_return end_put(put);
    why = put.why();
  }
  count_by_rpc(*why);
  const Result<uint64_t> version = co_await rpc_.put(key.bytes(), value, options, deadline_ns);
  co_return version;
}

Result<uint64_t> ChainClient::put_and_wait(const HashedKey& key, std::span<const std::byte> value,
                                           const RpcPutOptions& options, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key.bytes(), value.size()); code != Code::kOk) return fail(code);
  if (!is_current())
    return runtime::block_or(Code::kIndeterminate, shard_, put(key, value, options, deadline_ns));
  ChainPut put = put_of(key, value, options);
  std::optional<ByRpc> why = needs_owner(put, options);
  if (!why) {
    ChainPut::State state = put.begin();
    const Code code = run_and_wait(put, state, deadline_ns);
    if (code != Code::kOk) return fail(put.may_change() ? code : read_outcome(code));
    if (state == ChainPut::State::kDone) return end_put(put);
    why = put.why();
  }
  count_by_rpc(*why);
  return rpc_.put_and_wait(key.bytes(), value, options, deadline_ns);
}

}  // namespace refract::kv
