// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/mutated_reads.h"

#include <cstring>

#include "refract/kv/layout/layout.h"

namespace refract::campaign {

using fabric::Completion;
using fabric::Op;
using fabric::Request;

size_t MutatedReads::do_post(fabric::WrappedChannel& channel, std::span<const Request> requests) noexcept {
  for (const Request& request : requests) {
    if (request.op != Op::kRead) continue;
    posted_[request.token] = {.remote = request.remote.address, .local = request.local};
  }
  return WrappedDomain::do_post(channel, requests);
}

size_t MutatedReads::take(std::span<Completion> completions) noexcept {
  const size_t count = WrappedDomain::take(completions);
  for (const Completion& completion : completions.first(count)) {
    if (completion.op == Op::kRead) look_at(completion);
  }
  return count;
}

void MutatedReads::look_at(const Completion& completion) noexcept {
  const auto found = posted_.find(completion.token);
  if (found == posted_.end()) return;
  const Posted posted = found->second;
  posted_.erase(found);
  if (completion.code != Code::kOk || mutation_ != Mutation::kNoSlotLook) return;
  if (posted.local.bytes == sizeof(kv::Bucket)) {
    for (size_t i = 0; i < kv::kSlotsPerBucket; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, posted.local.data + i * sizeof(word), sizeof(word));
      words_[{completion.channel, posted.remote.bits + i * sizeof(word)}] = word;
    }
  }
  const auto word = words_.find({completion.channel, posted.remote.bits});
  if (posted.local.bytes == sizeof(kv::Slot) && word != words_.end()) {
    std::memcpy(posted.local.data, &word->second, sizeof(word->second));
  }
}

}  // namespace refract::campaign
