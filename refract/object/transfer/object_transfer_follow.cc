// SPDX-License-Identifier: Apache-2.0
// A source to which the object is still coming itself: what it has is asked for as it comes
// (docs/design/061-broadcast.md).
#include <algorithm>
#include <utility>

#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/transfer/object_transfer_source.h"

namespace refract::object {

using kv::wire::take;

namespace {

// Without news, a source that answers is waited for: it may wait for its own source. Those that are nearest
// to what stands still leave it first.
constexpr uint64_t kPatienceEach_ns = 2 * kSecond_ns;

}  // namespace

// Of the next pieces, each by a call: so one that comes is told of while another is on its way.
void ObjectTransfer::Source::ask_progress() {
  const uint64_t filled_bytes = transfer_.order_.parts.filled_bytes();
  const uint64_t step = share.by == wire::TransferBy::kReads ? read_bytes() : message_bytes(0);
  asked_ready_ = std::max(asked_ready_, ready_);
  for (uint32_t place = 0; place < progress_calls_.size(); ++place) {
    // One at least, as long as not all is there.
    const bool has_asked = progress_under_way_ > 0 && asked_ready_ >= filled_bytes;
    if (is_whole() || has_asked || code_ != Code::kOk) return;
    if (progress_calls_[place] != 0) continue;
    const uint64_t least = asked_ready_ + std::min(step, filled_bytes - asked_ready_);
    const wire::ProgressRequest request{.transfer = transfer_number_, .least = least};
    progress_calls_[place] = session_.start({.method = static_cast<uint16_t>(wire::TransferMethod::kProgress),
                                             .head = bytes_of(request),
                                             .tail = {}},
                                            *this, kProgressPlace + place);
    if (progress_calls_[place] == 0) return;
    asked_ready_ = least;
    ++progress_under_way_;
    ++share.calls;
  }
}

// All that it has is here.
bool ObjectTransfer::Source::has_nothing_to_do() const noexcept {
  return messages_under_way_ == 0 && reads_.empty();
}

void ObjectTransfer::Source::on_progress(uint32_t place, const runtime::OpResult& reply) noexcept {
  progress_calls_[place] = 0;
  --progress_under_way_;
  Code code = outcome_of(reply);
  std::span<const std::byte> bytes = reply.bytes;
  const auto said = take<wire::ProgressReply>(bytes);
  const uint64_t filled_bytes = transfer_.order_.parts.filled_bytes();
  if (code == Code::kOk && (!said || !bytes.empty() || said->ready > filled_bytes)) {
    code = Code::kMalformed;
  }
  if (code != Code::kOk) {
    fail(code);
    return wake();
  }
  const uint64_t now_ns = transfer_.shard_.refresh_now();
  const TransferOrder& order = transfer_.order_;
  const uint64_t patience_ns = order.limits.stall_alone_ns + order.forebears * kPatienceEach_ns;
  if (said->ready > ready_) news_ns_ = now_ns;
  // While something is under way, only that it comes is a sign of life.
  if (has_nothing_to_do() && now_ns < news_ns_ + patience_ns) progress_ns_ = now_ns;
  // An answer that was due says the same as one before it.
  ready_ = std::max(ready_, said->ready);
  if (progress_under_way_ == 0) asked_ready_ = ready_;
  if (share.by == wire::TransferBy::kReads) post_reads();
  ask_progress();
  wake();
}

void ObjectTransfer::Source::give_up_progress() noexcept {
  for (uint64_t& call : progress_calls_) {
    if (call != 0) (void)session_.finish(std::exchange(call, 0));
  }
  progress_under_way_ = 0;
}

}  // namespace refract::object
