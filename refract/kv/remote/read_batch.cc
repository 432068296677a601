// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/remote/read_batch.h"

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

void ReadBatch::clear() noexcept {
  REFRACT_DCHECK(!is_under_way());
  cut(0);
  operations_.clear();
  posted_ = 0;
  landed_ = 0;
  outcome_ = Code::kOk;
}

size_t ReadBatch::add(const fabric::RemoteSpan& remote, size_t bytes) {
  reads_.push_back({.remote = remote, .at = memory_bytes_, .bytes = bytes});
  memory_bytes_ += round_up(bytes, sizeof(uint64_t));
  return reads_.size() - 1;
}

void ReadBatch::cut(size_t size) noexcept {
  if (size >= reads_.size()) return;
  memory_bytes_ = reads_[size].at;
  reads_.resize(size);
}

// False: there are too many operations in flight.
bool ReadBatch::prepare(runtime::Shard& shard, uint64_t deadline_ns) {
  if (memory_.size() < memory_bytes_) memory_.resize(memory_bytes_);
  requests_.clear();
  for (const Read& read : reads_) {
    const runtime::Pending& operation = operations_.emplace_back(shard.ops().begin(deadline_ns));
    if (operation.token() == 0) return false;
    requests_.push_back({.token = operation.token(),
                         .local = {memory_.data() + read.at, read.bytes},
                         .remote = read.remote,
                         .op = fabric::Op::kRead});
  }
  return true;
}

void ReadBatch::post_more(fabric::Channel& channel) noexcept {
  posted_ += channel.post(std::span(requests_).subspan(posted_));
}

void ReadBatch::settle(size_t read, Code code) noexcept {
  reads_[read].code = code;
  if (code != Code::kDeadlineExceeded) ++landed_;
  if (code != Code::kOk && code != Code::kAccessDenied) outcome_ = code;
}

Task<Code> ReadBatch::run(const fabric::Endpoint& endpoint, runtime::Shard& shard, uint64_t deadline_ns) {
  if (!prepare(shard, deadline_ns)) co_return Code::kOverloaded;
  size_t settled = 0;
  while (outcome_ == Code::kOk) {
    if (endpoint.channel == nullptr) co_return Code::kUnavailable;
    post_more(*endpoint.channel);
    if (posted_ == requests_.size()) break;
    // The channel is full: of our own READs, or of others'.
    if (settled < posted_) {
      runtime::Pending& oldest = operations_[settled];  // NOLINT(misc-const-correctness)
      const OpResult result = co_await oldest;
      settle(settled++, result.code);
    } else {
      co_await shard.sleep_for(0);
      if (shard.now_ns() >= deadline_ns) outcome_ = Code::kDeadlineExceeded;
    }
  }
  // The last first: where completions come in order, that is the only one that has to be waited for.
  for (size_t read = posted_; read-- > settled;) {
    runtime::Pending& operation = operations_[read];  // NOLINT(misc-const-correctness)
    const OpResult result = co_await operation;
    settle(read, result.code);
  }
  co_return outcome_;
}

}  // namespace refract::kv
