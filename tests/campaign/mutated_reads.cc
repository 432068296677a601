// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/mutated_reads.h"

#include <algorithm>
#include <cstring>

#include "refract/kv/layout.h"

namespace refract::campaign {

using fabric::Completion;
using fabric::Op;
using fabric::Request;

namespace {

bool is_slot(const Request& request) noexcept {
  return request.op == Op::kRead && request.local.bytes == sizeof(kv::Slot) &&
         request.remote.address.offset() != kv::kBucketCountAt.value;
}

bool is_buffer_and_slot(std::span<const Request> requests) noexcept {
  return requests.size() >= 2 && requests[0].op == Op::kRead && requests[0].local.bytes > sizeof(kv::Slot) &&
         is_slot(requests[1]);
}

}  // namespace

size_t MutatedReads::do_post(fabric::WrappedChannel& channel, std::span<const Request> requests) noexcept {
  for (const Request& request : requests) {
    if (request.op != Op::kRead) continue;
    posted_[request.token] = {.remote = request.remote.address, .local = request.local};
  }
  if (mutation_ == Mutation::kSlotFirst) return post_slots_first(channel, requests);
  return WrappedDomain::do_post(channel, requests);
}

// Each pair turned round; where only one of the two finds room, neither goes.
size_t MutatedReads::post_slots_first(fabric::WrappedChannel& channel,
                                      std::span<const Request> requests) noexcept {
  size_t posted = 0;
  while (posted < requests.size()) {
    const std::span<const Request> rest = requests.subspan(posted);
    if (!is_buffer_and_slot(rest)) {
      if (WrappedDomain::do_post(channel, rest.first(1)) == 0) break;
      ++posted;
      continue;
    }
    if (do_room(channel) < 2) break;
    const std::vector<Request> turned = {rest[1], rest[0]};
    posted += WrappedDomain::do_post(channel, turned);
  }
  return posted;
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
