// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/word_counter.h"

#include <span>

#include "refract/base/units.h"
#include "refract/kv/layout/transaction_wire.h"

namespace refract::campaign {

using runtime::Task;

Task<> WordCounter::count(uint32_t shard, bool is_far) {
  words_ = 0;
  is_done_ = false;
  for (;;) {
    const uint64_t given = co_await count_of_session(shard, is_far);
    if (given == 0) break;
    words_ += given;
  }
  co_await host_.shard().sleep_for(0);
  sessions_.clear();
  is_done_ = true;
}

Task<uint64_t> WordCounter::count_of_session(uint32_t shard, bool is_far) {
  const Reported<fabric::Channel*> channel = host_.domain().connect(TransactionStage::shard_name(shard));
  if (!channel) co_return 0;
  rpc::Session& session = sessions_.emplace_back(**channel, host_.shard());
  while (session.state() == rpc::Session::State::kOpening) co_await host_.shard().sleep_for(kMicrosecond_ns);
  uint64_t words = 0;
  for (;;) {
    kv::wire::WordsRequest request{};
    request.words = kv::wire::kWordsPerCall;
    request.is_far = is_far ? 1 : 0;
    rpc::Call call;
    call.method = static_cast<uint16_t>(kv::wire::TransactionMethod::kWords);
    call.head = std::as_bytes(std::span(&request, 1));
    const runtime::OpResult told = co_await session.call(call, host_.shard().now_ns() + kSecond_ns);
    if (told.code != Code::kOk) {
      if (told.code != Code::kOverloaded) stage_.complain("words were refused at the end");
      co_return words;
    }
    words += (told.bytes.size() - sizeof(kv::wire::WordsReply)) / sizeof(kv::wire::GivenWord);
  }
}

}  // namespace refract::campaign
