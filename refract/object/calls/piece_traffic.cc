// SPDX-License-Identifier: Apache-2.0
#include "refract/object/calls/piece_traffic.h"

#include <algorithm>
#include <utility>

namespace refract::object {

using runtime::OpResult;
using runtime::Task;

namespace {

// Not inlined: the request is aligned more than a coroutine's frame.
[[nodiscard, gnu::noinline]] bool try_post(fabric::Channel& channel, const PieceTraffic::Move& piece,
                                           runtime::Token token) noexcept {
  const RemotePointer first{piece.window.address};
  const fabric::Request request = {
      .token = token,
      .local = {piece.local.data(), piece.local.size()},
      .remote = {.address = RemotePointer::at(first.region(), first.offset() + piece.offset),
                 .key = {piece.window.key}},
      .op = piece.op};
  return channel.post({&request, 1}) == 1;
}

}  // namespace

PieceTraffic::~PieceTraffic() {
  if (is_unsafe_ || !under_way_.empty()) session_.close();
}

Task<Code> PieceTraffic::carry(Move move) {
  Code code = Code::kOk;
  while (code == Code::kOk && !move.local.empty()) {
    if (under_way_.size() >= kPiecesMax) {
      code = co_await finish_one();
      continue;
    }
    const uint64_t bytes = std::min<uint64_t>(kPieceBytes, move.local.size());
    Move piece = move;
    piece.local = move.local.first(bytes);
    code = co_await post(piece);
    move.local = move.local.subspan(bytes);
    move.offset += bytes;
  }
  while (!under_way_.empty()) {
    const Code one = co_await finish_one();
    code = code == Code::kOk ? one : code;
  }
  co_return code;
}

Task<Code> PieceTraffic::post(Move piece) {
  const uint64_t give_up_ns = shard_.now_ns() + timeout_ns_;
  runtime::Pending operation = shard_.ops().begin(give_up_ns);
  if (operation.token() == 0) co_return Code::kOverloaded;
  for (;;) {
    fabric::Channel* channel = session_.channel();
    if (channel == nullptr || session_.state() != rpc::Session::State::kOpen) co_return Code::kUnavailable;
    if (try_post(*channel, piece, operation.token())) break;
    co_await shard_.sleep_for(0);
    if (shard_.now_ns() >= give_up_ns) co_return Code::kDeadlineExceeded;
  }
  under_way_.push_back(std::move(operation));
  co_return Code::kOk;
}

Task<Code> PieceTraffic::finish_one() {
  // Awaiting changes it, which the check does not see.
  runtime::Pending& oldest = under_way_.front();  // NOLINT(misc-const-correctness)
  const OpResult result = co_await oldest;
  under_way_.pop_front();
  is_unsafe_ |= result.code == Code::kDeadlineExceeded;
  co_return result.code;
}

}  // namespace refract::object
