// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/call_batcher.h"

#include <algorithm>
#include <utility>

namespace refract::kv {

using runtime::OpResult;
using wire::Method;

uint32_t RpcClient::Group::add(Attempt& attempt, size_t bytes) noexcept {
  members_[count_] = &attempt;
  body_bytes_ += bytes;
  ++left_;
  return count_++;
}

RpcClient::Attempt* RpcClient::Group::take(size_t place) noexcept {
  Attempt* const member = std::exchange(members_[place], nullptr);
  left_ -= member != nullptr ? 1 : 0;
  return member;
}

void RpcClient::Group::leave(uint32_t place) noexcept {
  (void)take(place);
  // Where it is not under way, the code that sends it or hands out its answers will see that no member is
  // left.
  if (left_ > 0 || call_ == 0) return;
  (void)client_.session_.finish(std::exchange(call_, 0));
  end();
}

void RpcClient::Group::end() noexcept {
  count_ = 0;
  body_bytes_ = sizeof(wire::ManyRequest);
  batcher_.give_back(*this);
}

void RpcClient::Group::add_to(wire::ManyBody& body, const Attempt& member) const noexcept {
  if (method_ == Method::kGetMany) {
    body.add_get(static_cast<const GetAttempt&>(member).key_);
  } else {
    const PutAttempt::Write& put = static_cast<const PutAttempt&>(member).write_;
    body.add_put(put.key, put.value, put.ttl_ns);
  }
}

void RpcClient::Group::send() noexcept {
  wire::ManyBody body(batcher_.room());
  uint32_t kept = 0;
  for (Attempt* const member : std::span(members_).first(count_)) {
    if (member == nullptr) continue;
    add_to(body, *member);
    member->place_ = kept;
    members_[kept++] = member;
  }
  count_ = kept;
  if (kept == 0) return end();
  call_ = client_.session_.start({.method = static_cast<uint16_t>(method_), .tail = body.bytes()}, *this, 0);
  // No credit, or no room: each continues as one that finds its owner busy.
  if (call_ == 0) hand_out({.code = Code::kOverloaded});
}

void RpcClient::Group::on_reply(uint32_t /*place*/, const OpResult& reply) noexcept {
  call_ = 0;
  if (reply.code == Code::kUnsupported) {
    batcher_.refuse();
    return hand_out({.code = Code::kOverloaded});
  }
  hand_out(reply);
}

bool RpcClient::Group::hand_next(std::span<const std::byte>& bytes, Attempt* member) noexcept {
  if (method_ == Method::kGetMany) {
    const auto answer = wire::take_many_answer(bytes);
    if (!answer) return false;
    batcher_.saw_value(answer->entry.value_bytes);
    if (member != nullptr) static_cast<GetAttempt*>(member)->on_answer(*answer);
    return true;
  }
  const auto version = wire::take_many_version(bytes);
  if (version && member != nullptr) static_cast<PutAttempt*>(member)->on_version(*version);
  return version.has_value();
}

void RpcClient::Group::hand_out(const OpResult& reply) noexcept {
  std::span<const std::byte> bytes = reply.bytes;
  OpResult failure{.code = reply.code, .value = reply.value};
  for (size_t place = 0; place < count_; ++place) {
    // Those that were heard of may have ended others.
    Attempt* const member = take(place);
    if (failure.code == Code::kOk) {
      if (hand_next(bytes, member)) continue;
      failure.code = Code::kMalformed;
    }
    if (member != nullptr) member->on_reply(0, failure);
  }
  end();
}

RpcClient::CallBatcher::CallBatcher(RpcClient& client)
    : client_(client),
      key_bytes_max_(wire::many_key_bytes_max(client.body_bytes_max_)),
      room_(client.body_bytes_max_) {}

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

std::optional<RpcClient::CallBatcher::Shared> RpcClient::CallBatcher::batch_get(
    GetAttempt& attempt, std::span<const std::byte> key) noexcept {
  if (!client_.session_.is_among_replies() || key.size() > key_bytes_max_) return std::nullopt;
  if (gets_ == nullptr) {
    width_ = std::min(width(), count_max());
    if (width_ == 1) return std::nullopt;
  }
  if (gets_ == nullptr || gets_->count() == width_) gets_ = begin_group(Method::kGetMany);
  return Shared{.group = gets_, .place = gets_->add(attempt, sizeof(wire::KeyLength) + key.size())};
}

std::optional<RpcClient::CallBatcher::Shared> RpcClient::CallBatcher::batch_put(
    PutAttempt& attempt, const PutAttempt::Write& write) noexcept {
  if (!client_.session_.is_among_replies() || is_refused()) return std::nullopt;
  const size_t bytes = sizeof(wire::PutOfMany) + write.key.size() + write.value.size();
  // Two of them must fit, or nothing is shared.
  if (write.value.size() > kPutValueBytesMax || bytes > (room_.size() - sizeof(wire::ManyRequest)) / 2) {
    return std::nullopt;
  }
  const size_t most = count_max();
  if (most == 1) return std::nullopt;
  const bool has_room =
      puts_ != nullptr && puts_->count() < most && bytes <= room_.size() - puts_->body_bytes();
  if (!has_room) puts_ = begin_group(Method::kPutMany);
  return Shared{.group = puts_, .place = puts_->add(attempt, bytes)};
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
