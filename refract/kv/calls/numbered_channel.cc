// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/numbered_channel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace refract::kv {

using runtime::OpResult;
using wire::NumberedMethod;

NumberedChannel::~NumberedChannel() {
  give_up();
}

void NumberedChannel::give_up() noexcept {
  for (UnderWay& one : under_way_) {
    if (one.id != 0) (void)session_.finish(std::exchange(one.id, 0));
  }
}

void NumberedChannel::listen(Listener* listener) noexcept {
  if (listener == nullptr) give_up();
  listener_ = listener;
}

bool NumberedChannel::begin_session(uint32_t place) noexcept {
  return start({.method = static_cast<uint16_t>(NumberedMethod::kSessionBegin), .head = {}, .tail = {}},
               place, true);
}

bool NumberedChannel::resume_session(uint32_t place, const wire::SessionRequest& request) noexcept {
  return start({.method = static_cast<uint16_t>(NumberedMethod::kSessionResume),
                .head = std::as_bytes(std::span(&request, 1)),
                .tail = {}},
               place, true);
}

bool NumberedChannel::send(uint32_t place, wire::OperationsBody& body) noexcept {
  return start(
      {.method = static_cast<uint16_t>(NumberedMethod::kOperations), .head = {}, .tail = body.bytes()}, place,
      false);
}

bool NumberedChannel::start(const rpc::Call& call, uint32_t place, bool is_of_session) noexcept {
  auto row = std::ranges::find(under_way_, uint64_t{0}, &UnderWay::id);
  if (row == under_way_.end()) {
    under_way_.emplace_back();
    row = under_way_.end() - 1;
  }
  row->id = session_.start(call, *this, static_cast<uint32_t>(row - under_way_.begin()));
  row->place = place;
  row->is_of_session = is_of_session;
  return row->id != 0;
}

void NumberedChannel::on_reply(uint32_t row, const OpResult& reply) noexcept {
  const UnderWay call = std::exchange(under_way_[row], {});
  if (listener_ == nullptr) return;
  if (reply.code == Code::kOk) {
    const bool makes_sense =
        call.is_of_session ? take_session(call.place, reply.bytes) : take_answers(call.place, reply.bytes);
    if (makes_sense) return;
    session_.close();
    return listener_->answers_were_lost();
  }
  // What the peer did not say itself is the end of the channel.
  if (reply.value == 0) return listener_->answers_were_lost();
  listener_->call_was_refused(call.place, reply.code);
}

bool NumberedChannel::take_session(uint32_t place, std::span<const std::byte> bytes) noexcept {
  const auto reply = wire::take<wire::SessionReply>(bytes);
  if (!reply || !bytes.empty() || reply->id == 0 || reply->reserved != 0) return false;
  listener_->session_came(place, *reply);
  return true;
}

bool NumberedChannel::take_answers(uint32_t place, std::span<const std::byte> bytes) noexcept {
  std::array<wire::TakenAnswer, wire::kOperationsPerCall> answers;
  size_t count = 0;
  while (!bytes.empty()) {
    const auto answer = count < answers.size() ? wire::take_operation_answer(bytes) : std::nullopt;
    if (!answer) return false;
    answers[count++] = *answer;
  }
  return listener_->answers_came(place, std::span(answers).first(count));
}

}  // namespace refract::kv
