// SPDX-License-Identifier: Apache-2.0
// Values that the owner READs from this process's memory: one call, and its answer. See docs/design/024.
//
// However the call ends, what was lent is not there for the owner any more when the put returns: either the
// owner has answered, and then it READs nothing more, or the loan is revoked.
#include <algorithm>
#include <utility>

#include "refract/kv/calls/lender.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/rpc_client_parts.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

namespace {

// Without a deadline of the caller's a put has as long as a message, and what its bytes take on a slow path.
constexpr uint64_t kPulledPerMiB_ns = 100 * kMillisecond_ns;

// What a value takes at most to a peer on this host that nothing else holds up, and how long that is worth a
// CPU.
constexpr uint64_t kMovedBytesPerNs = 5;
constexpr uint64_t kAwakeMax_ns = kMillisecond_ns;

// Room that was taken, until the put ends.
class Taken {
 public:
  explicit Taken(rpc::TransferRoom& room) noexcept : room_(room) {}
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() {
    if (amount_ > 0) room_.give_back(amount_);
  }

  [[nodiscard]] Task<Code> take(uint64_t amount, uint64_t deadline_ns) {
    const Code code = co_await room_.take(amount, deadline_ns);
    if (code == Code::kOk) amount_ = amount;
    co_return code;
  }

 private:
  rpc::TransferRoom& room_;
  uint64_t amount_ = 0;
};

}  // namespace

void RpcClient::stay_awake_while_moving(uint64_t bytes) noexcept {
  shard_.stay_awake_for(std::min(bytes / kMovedBytesPerNs, kAwakeMax_ns));
}

bool RpcClient::may_be_pulled(uint64_t bytes, const SharedBuffer* shared) const noexcept {
  const fabric::Channel* channel = session_.channel();
  if (options_.lender == nullptr || bytes == 0 || bytes < options_.pull_bytes_min || channel == nullptr) {
    return false;
  }
  const bool is_refused = is_pull_refused_ && refused_opened_ns_ == session_.opened_ns();
  const fabric::Capabilities& can = channel->capabilities();
  return !is_refused && (can.peer_reads_bypass_cpu || (can.maps_lent_files && shared != nullptr));
}

// kUnsupported, kAccessDenied: nothing was changed, and it has to go another way.
Task<Result<uint64_t>> RpcClient::put_pulled(Keyed call, std::span<const std::byte> value, Writing& writing,
                                             uint64_t deadline_ns) {
  call.method = wire::Method::kPutPulled;
  const OpResult answered = co_await have_pulled(call, value, deadline_ns);
  co_return writing.version_of(answered);
}

Task<OpResult> RpcClient::have_pulled(Keyed call, std::span<const std::byte> value, uint64_t deadline_ns) {
  const uint64_t give_up_ns =
      deadline_ns != 0 ? deadline_ns : deadline_or_default(0) + value.size() / kMiB * kPulledPerMiB_ns;
  const uint64_t opened_ns = session_.opened_ns();
  // No more than half of what the owner holds open for a session, so that it need not refuse any.
  Taken place(pulled_);
  Code code = co_await place.take(1, give_up_ns);
  if (code != Code::kOk) co_return OpResult{.code = code};
  Taken room(writing_);
  code = co_await room.take(value.size(), give_up_ns);
  if (code != Code::kOk) co_return OpResult{.code = code};
  // How long ago an identified write was first sent is reckoned from the session's beginning.
  if (opened_ns != session_.opened_ns()) co_return OpResult{.code = Code::kInvalidated};
  Lender::Loan loan = options_.lender->lend(value, call.shared);
  if (!loan) co_return OpResult{.code = Code::kUnsupported};
  // The owner gives up a little earlier, so that it is not READing any more when the loan ends.
  const uint64_t now_ns = shard_.now_ns();
  const uint64_t left_ns = give_up_ns > now_ns ? give_up_ns - now_ns : 0;
  call.pull_from(loan.source(), left_ns - left_ns / 8);
  if (call.shared != nullptr) stay_awake_while_moving(value.size());
  const OpResult answered = co_await call_keyed(call, give_up_ns);
  if (answered.value != 0) {
    loan.settle();
    is_pull_refused_ = answered.code == Code::kUnsupported;
    refused_opened_ns_ = opened_ns;
  }
  co_return answered;
}

}  // namespace refract::kv
