// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/call_batch.h"

#include <algorithm>
#include <utility>

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

CallBatch::CallBatch(rpc::Session& session, runtime::Shard& shard, size_t count, size_t width)
    : session_(session), shard_(shard), count_(count), places_(std::min(count, width)) {
  free_places_.reserve(places_.size());
  for (size_t i = places_.size(); i-- > 0;) free_places_.push_back(static_cast<uint32_t>(i));
}

CallBatch::~CallBatch() {
  for (const UnderWay& place : places_) {
    if (place.call != 0) (void)session_.finish(place.call);
  }
}

CallBatch::Begun CallBatch::send(const rpc::Call& call, uint32_t place) noexcept {
  places_[place].call = session_.start(call, *this, place);
  return places_[place].call != 0 ? Begun::kSent : Begun::kNotNow;
}

void CallBatch::begin_more() noexcept {
  while (next_ < count_ && !free_places_.empty()) {
    const uint32_t place = free_places_.back();
    places_[place].item = next_;
    const Begun begun = begin(next_, place);
    if (begun == Begun::kNotNow) return;
    ++next_;
    if (begun == Begun::kSent) free_places_.pop_back();
  }
}

void CallBatch::on_reply(uint32_t place, const OpResult& reply) noexcept {
  ++replies_;
  places_[place].call = 0;
  if (goes_on(places_[place].item, place, reply)) return;
  free_places_.push_back(place);
  begin_more();
  // The waiting coroutine may end this batch inside the call.
  if (free_places_.size() == places_.size() && waiter_ != 0) {
    (void)shard_.ops().complete(std::exchange(waiter_, 0), {});
  }
}

bool CallBatch::goes_on(size_t item, uint32_t /*place*/, const OpResult& reply) noexcept {
  settle(item, reply);
  return false;
}

void CallBatch::give_up() noexcept {
  is_late_ = true;
  for (UnderWay& place : places_) {
    const uint64_t call = std::exchange(place.call, 0);
    if (call == 0) continue;
    (void)session_.finish(call);
    free_places_.push_back(static_cast<uint32_t>(&place - places_.data()));
    settle(place.item, {.code = Code::kIndeterminate});
  }
}

Task<> CallBatch::run(uint64_t deadline_ns, uint64_t timeout_ns) {
  for (;;) {
    begin_more();
    // All have had their turn; or others have every credit, or the session is not open.
    if (free_places_.size() == places_.size()) co_return;
    const uint64_t until_ns = deadline_ns != 0 ? deadline_ns : shard_.now_ns() + timeout_ns;
    runtime::Pending replied = shard_.ops().begin(until_ns);  // NOLINT(misc-const-correctness)
    const uint64_t replies_before = replies_;
    waiter_ = replied.token();
    const OpResult woken = co_await replied;
    waiter_ = 0;
    if (woken.code == Code::kOk || (deadline_ns == 0 && replies_ != replies_before)) continue;
    give_up();
    co_return;
  }
}

}  // namespace refract::kv
