// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/rpc_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/kv/calls/call_batcher.h"
#include "refract/kv/calls/rpc_client_parts.h"
#include "refract/kv/layout/layout.h"
#include "refract/runtime/block_or.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;
using wire::Method;

RpcClient::RpcClient(rpc::Session& session, runtime::Shard& shard, const RpcClientOptions& options)
    : session_(session),
      shard_(shard),
      options_(options),
      body_bytes_max_(session.payload_bytes_max()),
      reading_(shard, wire::kOpenBytesPerSession / 2),
      writing_(shard, wire::kOpenBytesPerSession / 2),
      pulled_(shard, wire::kUploadsPerSession / 2) {
  REFRACT_CHECK(body_bytes_max_ >= wire::kBodyBytesMin && options.pipeline > 0);
  batcher_ = std::make_unique<CallBatcher>(*this);
  session_.close_late_by(this);
}

RpcClient::~RpcClient() {
  if (session_.closes_late() == this) session_.close_late_by(nullptr);
}

uint64_t RpcClient::deadline_or_default(uint64_t deadline_ns) const noexcept {
  return deadline_ns != 0 ? deadline_ns : shard_.now_ns() + options_.timeout_ns;
}

OpResult RpcClient::ask(const rpc::Call& call, uint64_t deadline_ns, rpc::Meanwhile* meanwhile) {
  return deadline_ns != 0 ? session_.call_and_wait(call, deadline_ns)
                          : session_.call_and_wait_within(call, options_.timeout_ns, meanwhile);
}

// What became of a call that changes nothing: that it may have been executed is of no interest.
Code RpcClient::read_outcome(Code code) const noexcept {
  if (code != Code::kIndeterminate) return code;
  return session_.state() == rpc::Session::State::kClosed ? Code::kUnavailable : Code::kDeadlineExceeded;
}

Task<bool> RpcClient::may_repeat(Code code, RetryBudget& budget) {
  if (code == Code::kInvalidated) co_return budget.losses++ < RetryBudget::kLossesMax;
  if (code != Code::kOverloaded) co_return false;
  if (shard_.now_ns() + budget.pause_ns >= budget.deadline_ns) co_return false;
  co_await shard_.sleep_for(budget.pause_ns);
  budget.pause_ns = std::min(budget.pause_ns * 2, RetryBudget::kPauseMax_ns);
  co_return true;
}

// False: the session stays closed, or does not open in time.
Task<bool> RpcClient::is_open_again(uint64_t deadline_ns) {
  while (session_.state() != rpc::Session::State::kOpen) {
    if (session_.state() == rpc::Session::State::kClosed && !session_.reopens()) co_return false;
    if (shard_.now_ns() + RetryBudget::kPauseMax_ns >= deadline_ns) co_return false;
    co_await shard_.sleep_for(RetryBudget::kPauseMax_ns / 10);
  }
  co_return true;
}

Task<bool> RpcClient::may_write_again(Code code, Writing& writing, RetryBudget& budget) {
  const bool is_lost = (code == Code::kIndeterminate && !writing.is_unknowable) ||
                       (code == Code::kUnavailable && writing.repeats);
  if (is_lost && writing.attempt.request && options_.repeats_writes && shard_.now_ns() < budget.deadline_ns) {
    writing.repeats = true;
    const bool again = co_await is_open_again(budget.deadline_ns);
    co_return again;
  }
  const bool again = co_await may_repeat(code, budget);
  co_return again;
}

Task<OpResult> RpcClient::call_keyed(Keyed call, uint64_t deadline_ns) {
  const size_t bytes = call.front_bytes() + call.key.size() + call.tail.size();
  if (bytes > body_bytes_max_) {
    const OpResult result = co_await call_with_staged_key(call, deadline_ns);
    co_return result;
  }
  const CallHead head = call.head();
  const OpResult result = co_await session_.call(
      {.method = call.number(), .head = head.bytes(), .tail = call.tail}, deadline_or_default(deadline_ns));
  co_return result;
}

Task<OpResult> RpcClient::call_with_staged_key(Keyed call, uint64_t deadline_ns) {
  StagedPlace place(*this);
  const uint64_t give_up_ns = deadline_or_default(deadline_ns);
  while (!place.take()) {
    if (shard_.now_ns() >= give_up_ns) co_return OpResult{.code = Code::kDeadlineExceeded};
    co_await shard_.sleep_for(RetryBudget::kPauseMin_ns);
  }
  const size_t piece_bytes_max = body_bytes_max_ - sizeof(wire::StageKeyRequest);
  for (size_t offset = 0; offset < call.key.size(); offset += piece_bytes_max) {
    const wire::StageKeyRequest request{
        .place = place.index(), .reserved = 0, .offset = static_cast<uint16_t>(offset), .reserved_end = 0};
    const auto piece = call.key.subspan(offset, std::min(piece_bytes_max, call.key.size() - offset));
    const OpResult staged = co_await session_.call({.method = static_cast<uint16_t>(Method::kStageKey),
                                                    .head = std::as_bytes(std::span(&request, 1)),
                                                    .tail = piece},
                                                   deadline_or_default(deadline_ns));
    // Nothing but the staged bytes has changed: never "indeterminate".
    if (staged.code != Code::kOk) co_return OpResult{.code = read_outcome(staged.code)};
  }
  call.fixed.key.staged = static_cast<uint8_t>(place.index() + 1);
  const CallHead head(call.fixed_part(), call.identity_part(), {});
  const OpResult result = co_await session_.call(
      {.method = call.number(), .head = head.bytes(), .tail = call.tail}, deadline_or_default(deadline_ns));
  co_return result;
}

Task<Result<Got>> RpcClient::get(std::span<const std::byte> key, ValueSink& sink, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key, 0); code != Code::kOk) co_return fail(code);
  RetryBudget budget{.deadline_ns = deadline_or_default(deadline_ns)};
  for (;;) {
    const Result<Got> got = co_await get_once(key, sink, deadline_ns);
    const bool again = co_await may_repeat(got.code(), budget);
    if (!again) co_return got;
  }
}

Task<Result<Got>> RpcClient::get_once(std::span<const std::byte> key, ValueSink& sink, uint64_t deadline_ns) {
  const Keyed call = Keyed::of_get(key, prefers_one_sided());
  const OpResult result = co_await call_keyed(call, deadline_ns);
  if (result.code != Code::kOk) co_return fail(read_outcome(result.code));
  GetAnswer answer;
  const Code taken = take_get_answer(result.bytes, call.wants_window(), sink, answer);
  OpenHandle view(session_, Method::kViewClose, answer.view);
  if (taken != Code::kOk) co_return fail(taken);
  if (answer.view == 0) co_return answer.got;
  const Code code = co_await read_view(ViewRest::of(answer), deadline_ns);
  if (code != Code::kOk) co_return fail(code);
  view.forget();
  co_return answer.got;
}

Task<Result<Got>> RpcClient::exists(std::span<const std::byte> key, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key, 0); code != Code::kOk) co_return fail(code);
  RetryBudget budget{.deadline_ns = deadline_or_default(deadline_ns)};
  for (;;) {
    const OpResult result = co_await call_keyed(Keyed::of(Method::kExists, key), deadline_ns);
    if (result.code == Code::kOk) {
      std::span<const std::byte> bytes = result.bytes;
      const auto reply = wire::take<wire::ExistsReply>(bytes);
      if (!reply) co_return fail(Code::kMalformed);
      co_return Got{.version = reply->version,
                    .value_bytes = reply->value_bytes,
                    .expires_wall_ns = reply->expires_wall_ns};
    }
    const bool again = co_await may_repeat(result.code, budget);
    if (!again) co_return fail(read_outcome(result.code));
  }
}

Task<Result<uint64_t>> RpcClient::put(std::span<const std::byte> key, std::span<const std::byte> value,
                                      RpcPutOptions options, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key, options.front.size() + value.size()); code != Code::kOk) {
    co_return fail(code);
  }
  RetryBudget budget{.deadline_ns = deadline_or_default(deadline_ns)};
  Writing writing = Writing::of(options.attempt, shard_.now_ns());
  // How long ago it was sent counts from the session's beginning, which must be known.
  if (writing.repeats) {
    const bool is_open = co_await is_open_again(budget.deadline_ns);
    if (!is_open) co_return fail(Code::kIndeterminate);
  }
  for (;;) {
    Keyed call = Keyed::of_put(key, value.size(), options);
    call.identify(writing, session_.opened_ns());
    const Result<uint64_t> version = co_await put_once(call, value, writing, deadline_ns);
    if (version) co_return version;
    const bool again = co_await may_write_again(version.code(), writing, budget);
    if (!again) co_return fail(writing.outcome(version.code()));
  }
}

Task<Result<uint64_t>> RpcClient::put_once(Keyed call, std::span<const std::byte> value, Writing& writing,
                                           uint64_t deadline_ns) {
  if (call.front_bytes() + call.value_front.size() + value.size() > body_bytes_max_) {
    const Result<uint64_t> version = co_await put_large(call, value, writing, deadline_ns);
    co_return version;
  }
  std::vector<std::byte> joined;
  if (!call.value_front.empty()) {
    joined.assign(call.value_front.begin(), call.value_front.end());
    joined.insert(joined.end(), value.begin(), value.end());
  }
  call.tail = joined.empty() ? value : joined;
  const OpResult result = co_await call_keyed(call, deadline_ns);
  co_return writing.version_of(result);
}

Task<Result<uint64_t>> RpcClient::erase(std::span<const std::byte> key, uint64_t if_version,
                                        uint64_t deadline_ns, RpcAttempt attempt) {
  if (const Code code = check_lengths(key, 0); code != Code::kOk) co_return fail(code);
  RetryBudget budget{.deadline_ns = deadline_or_default(deadline_ns)};
  Writing writing = Writing::of(attempt, shard_.now_ns());
  if (writing.repeats) {
    const bool is_open = co_await is_open_again(budget.deadline_ns);
    if (!is_open) co_return fail(Code::kIndeterminate);
  }
  for (;;) {
    Keyed call = Keyed::of_erase(key, if_version);
    call.identify(writing, session_.opened_ns());
    const OpResult result = co_await call_keyed(call, deadline_ns);
    const Result<uint64_t> version = writing.version_of(result);
    if (version) co_return version;
    const bool again = co_await may_write_again(version.code(), writing, budget);
    if (!again) co_return fail(writing.outcome(version.code()));
  }
}

Task<Result<RpcClient::Page>> RpcClient::scan(uint64_t cursor, uint64_t keys_min, uint64_t deadline_ns) {
  RetryBudget budget{.deadline_ns = deadline_or_default(deadline_ns)};
  for (;;) {
    Result<Page> page = co_await scan_once(cursor, keys_min, deadline_ns);
    const bool again = co_await may_repeat(page.code(), budget);
    if (!again) co_return std::move(page);
  }
}

Task<Result<RpcClient::Page>> RpcClient::scan_once(uint64_t cursor, uint64_t keys_min, uint64_t deadline_ns) {
  const wire::ScanRequest request{.cursor = cursor, .keys_min = keys_min};
  const OpResult result = co_await session_.call(
      {.method = static_cast<uint16_t>(Method::kScan), .head = std::as_bytes(std::span(&request, 1))},
      deadline_or_default(deadline_ns));
  if (result.code != Code::kOk) co_return fail(read_outcome(result.code));
  std::span<const std::byte> bytes = result.bytes;
  const auto reply = wire::take<wire::ScanReply>(bytes);
  if (!reply) co_return fail(Code::kMalformed);
  OpenHandle view(session_, Method::kViewClose, reply->view);
  if (!is_sound(*reply, bytes.size())) co_return fail(Code::kMalformed);
  std::vector<std::byte> entries(reply->page_bytes);
  if (!bytes.empty()) copy_possibly_torn(entries.data(), bytes.data(), bytes.size());
  if (reply->view != 0) {
    const Code code = co_await read_view(
        {.view = reply->view, .window = {}, .target = entries, .from = bytes.size()}, deadline_ns);
    if (code != Code::kOk) co_return fail(code);
    view.forget();
  }
  Page page{.keys = {}, .next = reply->next};
  if (!parse_page(entries, reply->keys, page.keys)) co_return fail(Code::kMalformed);
  co_return std::move(page);
}

Task<Result<wire::StatReply>> RpcClient::stat(uint64_t deadline_ns) {
  const OpResult result = co_await session_.call({.method = static_cast<uint16_t>(Method::kStat)},
                                                 deadline_or_default(deadline_ns));
  if (result.code != Code::kOk) co_return fail(read_outcome(result.code));
  if (result.bytes.size() < wire::kStatBytesMin) co_return fail(Code::kMalformed);
  // What an older owner does not say is 0, what a newer one says beyond it is left.
  wire::StatReply reply{};
  copy_possibly_torn(&reply, result.bytes.data(), std::min(result.bytes.size(), sizeof(reply)));
  co_return reply;
}

Task<Result<wire::PingReply>> RpcClient::ping(uint64_t nonce, uint64_t deadline_ns) {
  const wire::PingRequest request{nonce};
  const OpResult result = co_await session_.call(
      {.method = static_cast<uint16_t>(Method::kPing), .head = std::as_bytes(std::span(&request, 1))},
      deadline_or_default(deadline_ns));
  if (result.code != Code::kOk) co_return fail(read_outcome(result.code));
  std::span<const std::byte> bytes = result.bytes;
  const auto reply = wire::take<wire::PingReply>(bytes);
  if (!reply || reply->nonce != nonce) co_return fail(Code::kMalformed);
  co_return *reply;
}

Result<Got> RpcClient::get_and_wait(std::span<const std::byte> key, ValueSink& sink, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key, 0); code != Code::kOk) return fail(code);
  const Keyed call = Keyed::of_get(key, prefers_one_sided());
  if (call.fixed_bytes + key.size() <= body_bytes_max_) {
    const CallHead head = call.head();
    const OpResult result = ask({.method = call.number(), .head = head.bytes()}, deadline_ns);
    const Code code = read_outcome(result.code);
    if (code == Code::kOk) {
      GetAnswer answer;
      const Code taken = take_get_answer(result.bytes, call.wants_window(), sink, answer);
      OpenHandle view(session_, Method::kViewClose, answer.view);
      if (taken != Code::kOk) return fail(taken);
      if (answer.view == 0) return answer.got;
      const Code read =
          runtime::block_or(Code::kDeadlineExceeded, shard_, read_view(ViewRest::of(answer), deadline_ns));
      if (read == Code::kOk) view.forget();
      if (read != Code::kInvalidated) return read == Code::kOk ? Result<Got>(answer.got) : fail(read);
    } else if (code != Code::kOverloaded) {
      return fail(code);
    }
  }
  return runtime::block_or(Code::kDeadlineExceeded, shard_, get(key, sink, deadline_ns));
}

Result<uint64_t> RpcClient::put_and_wait(std::span<const std::byte> key, std::span<const std::byte> value,
                                         const RpcPutOptions& options, uint64_t deadline_ns,
                                         rpc::Meanwhile* meanwhile) {
  if (const Code code = check_lengths(key, options.front.size() + value.size()); code != Code::kOk) {
    return fail(code);
  }
  // Between two calls from outside the clock was not read.
  Writing writing = Writing::of(options.attempt, options.attempt.request ? shard_.refresh_now() : 0);
  Keyed call = Keyed::of_put(key, value.size(), options);
  call.identify(writing, session_.opened_ns());
  RpcPutOptions rest = options;
  const bool is_simple = !writing.repeats && call.value_front.empty();
  if (is_simple && call.front_bytes() + key.size() + value.size() <= body_bytes_max_) {
    const CallHead head = call.head();
    const OpResult result =
        ask({.method = call.number(), .head = head.bytes(), .tail = value}, deadline_ns, meanwhile);
    const Result<uint64_t> version = writing.version_of(result);
    const bool is_lost = version.code() == Code::kIndeterminate && writing.attempt.request &&
                         !writing.is_unknowable && options_.repeats_writes;
    if (!is_lost && version.code() != Code::kOverloaded) return version;
    if (is_lost) rest.attempt.first_sent_ns = writing.attempt.first_sent_ns;
  }
  return runtime::block_or(Code::kIndeterminate, shard_, put(key, value, rest, deadline_ns));
}

Result<uint64_t> RpcClient::erase_and_wait(std::span<const std::byte> key, uint64_t if_version,
                                           uint64_t deadline_ns, const RpcAttempt& attempt) {
  if (attempt.request) shard_.refresh_now();
  return runtime::block_or(Code::kIndeterminate, shard_, erase(key, if_version, deadline_ns, attempt));
}

}  // namespace refract::kv
