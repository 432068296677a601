// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/rpc_client_gather.h"

#include <algorithm>
#include <utility>

namespace refract::kv {

using runtime::OpResult;
using wire::Method;

uint32_t RpcClient::GetGroup::add(GetAttempt& attempt) noexcept {
  members_[count_] = &attempt;
  ++left_;
  return count_++;
}

RpcClient::GetAttempt* RpcClient::GetGroup::take(size_t place) noexcept {
  GetAttempt* const member = std::exchange(members_[place], nullptr);
  left_ -= member != nullptr ? 1 : 0;
  return member;
}

void RpcClient::GetGroup::leave(uint32_t place) noexcept {
  (void)take(place);
  // Where it is not under way, whoever sends it or hands out its answers will see that nobody is left.
  if (left_ > 0 || call_ == 0) return;
  (void)client_.session_.finish(std::exchange(call_, 0));
  count_ = 0;
  gatherer_.give_back(*this);
}

void RpcClient::GetGroup::send() noexcept {
  wire::GetManyBody body(gatherer_.room());
  uint32_t kept = 0;
  for (GetAttempt* const member : std::span(members_).first(count_)) {
    if (member == nullptr) continue;
    body.add(member->key_);
    member->place_ = kept;
    members_[kept++] = member;
  }
  count_ = kept;
  if (kept > 0) {
    call_ = client_.session_.start({.method = static_cast<uint16_t>(Method::kGetMany), .tail = body.bytes()},
                                   *this, 0);
    if (call_ != 0) return;
  }
  // No credit, or no room: each goes on as one that finds its owner busy.
  hand_out({.code = Code::kOverloaded});
}

void RpcClient::GetGroup::on_reply(uint32_t /*place*/, const OpResult& reply) noexcept {
  call_ = 0;
  if (reply.code == Code::kUnsupported) {
    gatherer_.refused();
    return hand_out({.code = Code::kOverloaded});
  }
  hand_out(reply);
}

void RpcClient::GetGroup::hand_out(const OpResult& reply) noexcept {
  std::span<const std::byte> bytes = reply.bytes;
  Code code = reply.code;
  for (size_t place = 0; place < count_; ++place) {
    std::optional<wire::ManyAnswer> answer;
    if (code == Code::kOk) {
      answer = wire::take_many_answer(bytes);
      if (!answer) code = Code::kMalformed;
    }
    // Those that were heard of may have ended others.
    GetAttempt* const member = take(place);
    if (member == nullptr) continue;
    if (answer) {
      gatherer_.saw_value(answer->entry.value_bytes);
      member->on_answer(*answer);
    } else {
      member->on_reply(0, {.code = code});
    }
  }
  count_ = 0;
  gatherer_.give_back(*this);
}

RpcClient::Gatherer::Gatherer(RpcClient& client)
    : client_(client),
      key_bytes_max_(wire::many_key_bytes_max(client.body_bytes_max_)),
      room_(client.body_bytes_max_) {}

size_t RpcClient::Gatherer::width() const noexcept {
  if (refused_opened_ns_ == client_.session_.opened_ns()) return 1;
  const size_t fit = client_.body_bytes_max_ / (sizeof(wire::ManyEntry) + value_bytes_);
  return std::clamp<size_t>(fit, 1, wire::kKeysPerCall);
}

RpcClient::GetGroup& RpcClient::Gatherer::begin_group() {
  if (free_.empty()) {
    groups_.push_back(std::make_unique<GetGroup>(client_, *this));
    free_.reserve(groups_.size());
    gathered_.reserve(groups_.size());
    sending_.reserve(groups_.size());
    free_.push_back(groups_.back().get());
  }
  GetGroup& group = *free_.back();
  free_.pop_back();
  gathered_.push_back(&group);
  return group;
}

RpcClient::GetGroup* RpcClient::Gatherer::gather(GetAttempt& attempt, uint32_t& place) noexcept {
  if (!client_.session_.is_among_replies() || attempt.key_.size() > key_bytes_max_) return nullptr;
  if (gathered_.empty()) {
    width_ = width();
    if (width_ == 1) return nullptr;
    client_.session_.call_after_replies(*this);
  }
  const bool has_room = !gathered_.empty() && gathered_.back()->count() < width_;
  GetGroup& group = has_room ? *gathered_.back() : begin_group();
  place = group.add(attempt);
  return &group;
}

// Whoever hears of a failure may begin other attempts, which go alone.
void RpcClient::Gatherer::after_replies() noexcept {
  std::swap(gathered_, sending_);
  for (GetGroup* const group : sending_) group->send();
  sending_.clear();
}

}  // namespace refract::kv
