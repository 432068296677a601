// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/object_transfer.h"

#include <algorithm>
#include <utility>

#include "refract/object/transfer/object_transfer_source.h"

namespace refract::object {

using runtime::Task;

namespace {

// While a holder may stall, it looks so often whether one does.
constexpr uint64_t kStallLooks = 16;
// Each holder is to have so many pieces at least, or one is as good as two.
constexpr uint64_t kPiecesEach = 2;

}  // namespace

ObjectTransfer::ObjectTransfer(runtime::Shard& shard, const TransferOrder& order,
                               std::vector<TransferSource> sources)
    : shard_(shard), order_(order), queue_(order.parts.filled_bytes()) {
  for (TransferSource& source : sources) {
    const bool is_followed = sources_.size() < order.forebears;
    sources_.push_back(std::make_unique<Source>(*this, std::move(source), is_followed));
  }
  if (order.plan != 0) return;
  // The nearest first; those of which nothing is known in between, so that they become known.
  const uint64_t bytes = order.parts.filled_bytes();
  std::ranges::sort(sources_, {},
                    [bytes](const std::unique_ptr<Source>& one) { return one->path().time_of(bytes); });
}

ObjectTransfer::~ObjectTransfer() = default;

Task<TransferOutcome> ObjectTransfer::run() {
  began_ns_ = shard_.refresh_now();
  for (;;) {
    if (!is_done() && !is_stopped_) start_sources();
    if (running_ == 0) break;
    co_await wait();
    leave_stalled();
  }
  learn();
  for (const auto& source : sources_) co_await source->say_done();
  co_return outcome();
}

void ObjectTransfer::stop() {
  is_stopped_ = true;
  for (const auto& source : sources_) {
    if (source->is_running()) source->stop();
  }
}

size_t ObjectTransfer::sources_wanted() const noexcept {
  if (order_.plan != 0) return 1;
  const uint64_t pieces = order_.parts.filled_bytes() / order_.limits.piece_bytes;
  return std::clamp<size_t>(pieces / kPiecesEach, 1, kSourcesMax);
}

void ObjectTransfer::start_sources() {
  const size_t wanted = sources_wanted();
  while (running_ < wanted && (!queue_.is_empty() || (!is_opened_ && running_ == 0))) {
    Source* const next = next_source();
    if (next == nullptr) break;
    ++running_;
    next->start();
  }
}

// Those that were asked least.
ObjectTransfer::Source* ObjectTransfer::next_source() {
  Source* best = nullptr;
  for (const auto& source : sources_) {
    if (!source->is_ready()) continue;
    if (best == nullptr || source->attempts() < best->attempts()) best = source.get();
  }
  return best;
}

bool ObjectTransfer::has_spare() const noexcept {
  if (running_ > 1) return true;
  return std::ranges::any_of(sources_, [](const auto& one) { return one->is_ready(); });
}

Task<> ObjectTransfer::wait() {
  const uint64_t until_ns = shard_.now_ns() + order_.limits.stall_ns / kStallLooks;
  // Awaiting changes it, which the check does not see.
  runtime::Pending news = shard_.ops().begin(until_ns);  // NOLINT(misc-const-correctness)
  if (news.token() == 0) {
    co_await shard_.sleep_for(kMillisecond_ns);
    co_return;
  }
  waiter_ = news.token();
  (void)co_await news;
  waiter_ = 0;
  // A source that has just ended stands below on the stack.
  co_await shard_.sleep_for(0);
}

void ObjectTransfer::source_ended() noexcept {
  --running_;
  if (waiter_ != 0) (void)shard_.ops().complete(std::exchange(waiter_, 0), {.code = Code::kOk});
}

void ObjectTransfer::leave_stalled() {
  const uint64_t limit_ns = has_spare() ? order_.limits.stall_ns : order_.limits.stall_alone_ns;
  const uint64_t now_ns = shard_.now_ns();
  for (const auto& source : sources_) {
    if (source->is_running() && now_ns > source->progress_ns() + limit_ns) source->leave();
  }
}

// What several brought tells nothing of one path.
void ObjectTransfer::learn() {
  if (!is_done() || order_.plan != 0) return;
  const auto asked = [](const auto& one) { return one->attempts() > 0; };
  if (std::ranges::count_if(sources_, asked) != 1) return;
  Source& source = **std::ranges::find_if(sources_, asked);
  if (source.attempts() == 1 && !order_.is_checked) {
    source.learn(order_.parts.filled_bytes(), shard_.refresh_now() - began_ns_);
  }
}

TransferOutcome ObjectTransfer::outcome() const {
  TransferOutcome outcome;
  for (const auto& source : sources_) {
    const TransferShare& share = source->share;
    outcome.shares.push_back(share);
    if (share.code != Code::kOk) outcome.code = share.code;
  }
  if (is_stopped_) outcome.code = Code::kCancelled;
  if (is_done()) outcome.code = Code::kOk;
  return outcome;
}

}  // namespace refract::object
