// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/call_batcher.h"

#include <algorithm>
#include <utility>

namespace refract::kv {

using runtime::OpResult;
using wire::Method;

RpcClient::Attempt* RpcClient::Group::take(size_t place) noexcept {
  Attempt* const member = std::exchange(members_[place], nullptr);
  left_ -= member != nullptr ? 1 : 0;
  return member;
}

void RpcClient::Group::leave(uint32_t place) noexcept {
  (void)take(place);
  // Where it is not under way, the code that sends it or hands out its answers will see that no member is
  // left.
  if (left_ > 0 || !is_under_way()) return;
  drop();
  end();
}

void RpcClient::Group::end() noexcept {
  count_ = 0;
  body_.clear();
  batcher_.give_back(*this);
}

void RpcClient::Group::make_again() noexcept {
  const uint32_t before = std::exchange(count_, 0);
  left_ = 0;
  body_.clear();
  for (Attempt* const member : std::span(members_).first(before)) {
    if (member == nullptr) continue;
    if (method_ == Method::kGetMany) {
      auto& get = static_cast<GetAttempt&>(*member);
      get.place_ = add(get, get.key_);
    } else {
      auto& put = static_cast<PutAttempt&>(*member);
      put.place_ = add(put, put.write_);
    }
  }
}

void RpcClient::Group::send() noexcept {
  if (left_ < count_) make_again();
  if (count_ == 0) return end();
  // No credit, or no room: each continues as one that finds its owner busy.
  if (!start({.method = static_cast<uint16_t>(method_), .tail = body_.bytes()})) {
    answered({.code = Code::kOverloaded});
  }
}

void RpcClient::Group::answered(const OpResult& reply) noexcept {
  if (reply.code == Code::kOk) {
    const size_t told = method_ == Method::kGetMany ? hand_out_gets(reply.bytes) : hand_out_puts(reply.bytes);
    hand_out(told, {.code = Code::kMalformed});
  } else if (reply.code == Code::kUnsupported) {
    batcher_.refuse();
    hand_out(0, {.code = Code::kOverloaded});
  } else {
    hand_out(0, {.code = reply.code, .value = reply.value});
  }
  end();
}

// In all three: those that were told may have ended others.
size_t RpcClient::Group::hand_out_gets(std::span<const std::byte> bytes) noexcept {
  for (size_t place = 0; place < count_; ++place) {
    const auto answer = wire::take_many_answer(bytes);
    if (!answer) return place;
    batcher_.saw_value(answer->entry.value_bytes);
    if (Attempt* const member = take(place)) [[likely]]
      static_cast<GetAttempt*>(member)->take(*answer);
  }
  return count_;
}

size_t RpcClient::Group::hand_out_puts(std::span<const std::byte> bytes) noexcept {
  for (size_t place = 0; place < count_; ++place) {
    const auto version = wire::take_many_version(bytes);
    if (!version) return place;
    if (Attempt* const member = take(place)) static_cast<PutAttempt*>(member)->take(*version);
  }
  return count_;
}

void RpcClient::Group::hand_out(size_t place, const OpResult& failure) noexcept {
  for (; place < count_; ++place) {
    if (Attempt* const member = take(place)) member->answered(failure);
  }
}

RpcClient::CallBatcher::CallBatcher(RpcClient& client)
    : client_(client), key_bytes_max_(wire::many_key_bytes_max(client.body_bytes_max_)) {}

size_t RpcClient::CallBatcher::width() const noexcept {
  if (is_refused()) return 1;
  const size_t fit = client_.body_bytes_max_ / (sizeof(wire::ManyEntry) + value_bytes_);
  return std::clamp<size_t>(fit, 1, wire::kKeysPerCall);
}

size_t RpcClient::CallBatcher::count_max() const noexcept {
  const fabric::Channel* const channel = client_.session_.channel();
  if (channel == nullptr || !channel->capabilities().messages_are_stores) return wire::kKeysPerCall;
  return std::clamp<size_t>((client_.attempt_count_ + 1) / 2, 1, wire::kKeysPerCall);
}

RpcClient::Group* RpcClient::CallBatcher::begin_group(Method method) noexcept {
  if (free_.empty()) {
    groups_.push_back(std::make_unique<Group>(client_, *this));
    free_.reserve(groups_.size());
    gathered_.reserve(groups_.size());
    sending_.reserve(groups_.size());
    free_.push_back(groups_.back().get());
  }
  Group* const group = free_.back();
  free_.pop_back();
  group->begin(method);
  if (gathered_.empty()) client_.session_.call_after_replies(*this);
  gathered_.push_back(group);
  return group;
}

bool RpcClient::CallBatcher::begin_gets() noexcept {
  if (!client_.session_.is_among_replies()) return false;
  if (gets_ == nullptr) width_ = std::min(width(), count_max());
  if (width_ == 1) return false;
  gets_ = begin_group(Method::kGetMany);
  return true;
}

std::optional<RpcClient::CallBatcher::Shared> RpcClient::CallBatcher::batch_put(
    PutAttempt& attempt, const PutAttempt::Write& write) noexcept {
  if (!client_.session_.is_among_replies() || is_refused() || write.key.empty()) return std::nullopt;
  const size_t bytes = sizeof(wire::PutOfMany) + write.key.size() + write.value.size();
  const size_t body_bytes_max = client_.body_bytes_max_;
  // Two of them must fit, or nothing is shared.
  if (write.value.size() > kPutValueBytesMax || bytes > (body_bytes_max - sizeof(wire::ManyRequest)) / 2) {
    return std::nullopt;
  }
  const size_t most = count_max();
  if (most == 1) return std::nullopt;
  const bool has_room =
      puts_ != nullptr && puts_->count() < most && bytes <= body_bytes_max - puts_->body_bytes();
  if (!has_room) puts_ = begin_group(Method::kPutMany);
  return Shared{.group = puts_, .place = puts_->add(attempt, write)};
}

// A caller that is told of a failure may begin other attempts, which go alone.
void RpcClient::CallBatcher::after_replies() noexcept {
  gets_ = puts_ = nullptr;
  std::swap(gathered_, sending_);
  size_t sent = 0;
  for (Group* const group : sending_) {
    // The owner begins with these meanwhile.
    if (sent >= wire::kKeysPerTurn) {
      client_.session_.flush();
      sent = 0;
    }
    sent += group->count();
    group->send();
  }
  sending_.clear();
}

}  // namespace refract::kv
