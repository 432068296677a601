// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/waiting_reads.h"

#include <algorithm>
#include <utility>

#include "refract/memory/remote_visible.h"

namespace refract::kv {

bool WaitingReads::add(const rpc::IncomingCall& call, std::optional<uint64_t> hash, uint64_t came,
                       uint64_t now_ns) {
  const auto its_own =
      std::ranges::count_if(reads_, [&](const Read& one) { return one.from.session == call.from.session; });
  if (reads_.size() == kMax || static_cast<size_t>(its_own) == kPerSession) return false;
  if (bytes_ + call.payload.size() > kBytesMax) return false;
  Read read{.from = call.from,
            .header = call.header,
            .payload = std::vector<std::byte>(call.payload.size()),
            .hash = hash,
            .came = came,
            .give_up_ns = now_ns + kLongest_ns};
  if (!read.payload.empty()) {
    copy_possibly_torn(read.payload.data(), call.payload.data(), call.payload.size());
  }
  put_back(std::move(read));
  return true;
}

void WaitingReads::drop(rpc::SessionId session) {
  std::erase_if(reads_, [&](const Read& one) {
    if (one.from.session != session) return false;
    bytes_ -= one.payload.size();
    return true;
  });
}

std::deque<WaitingReads::Read> WaitingReads::take() noexcept {
  bytes_ = 0;
  return std::exchange(reads_, {});
}

void WaitingReads::put_back(Read read) {
  bytes_ += read.payload.size();
  reads_.push_back(std::move(read));
}

}  // namespace refract::kv
