// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/conformance/loopback_domain.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/prng.h"

namespace refract::fabric {

LoopbackDomain* LoopbackHub::find(std::string_view address) const noexcept {
  for (LoopbackDomain* domain : domains_) {
    if (domain->address() == address) return domain;
  }
  return nullptr;
}

LoopbackChannel::LoopbackChannel(LoopbackDomain& domain, const LoopbackOptions& options, bool accepted)
    : domain_(&domain),
      capabilities_{.depth = options.depth,
                    .message_bytes_max = options.message_bytes_max,
                    .read_bypasses_target_cpu = options.reads_bypass_cpu,
                    .peer_reads_bypass_cpu = options.reads_bypass_cpu,
                    .messages_are_stores = options.messages_are_stores,
                    .one_sided_bytes_min = options.one_sided_bytes_min},
      accepted_(accepted),
      records_(options.depth),
      completed_(options.depth),
      messages_(new std::byte[size_t{options.depth} * options.message_bytes_max]),
      received_(new std::byte[size_t{options.depth} * options.message_bytes_max]) {}

std::byte* LoopbackChannel::message_at(uint64_t index) noexcept {
  return messages_.get() + (index % capabilities_.depth) * capabilities_.message_bytes_max;
}

size_t LoopbackChannel::post(std::span<const Request> requests) noexcept {
  size_t taken = 0;
  for (const Request& request : requests) {
    if (in_flight() == capabilities_.depth) break;
    Record& record = records_[tail_ % capabilities_.depth];
    record = {.request = request};
    if (request.op == Op::kSend) {
      record.bytes = request.local.bytes + request.tail.bytes;
      if (record.bytes > capabilities_.message_bytes_max) {
        record.code = Code::kTooLarge;
      } else {
        std::byte* to = message_at(tail_);
        if (request.local.bytes > 0) std::memcpy(to, request.local.data, request.local.bytes);
        if (request.tail.bytes > 0) {
          std::memcpy(to + request.local.bytes, request.tail.data, request.tail.bytes);
        }
      }
    }
    ++tail_;
    ++taken;
  }
  return taken;
}

void LoopbackChannel::close() noexcept {
  if (state_ == State::kDead || state_ == State::kClosing) return;
  if (peer_ != nullptr) {
    peer_->lose_peer();
    peer_->domain_->wake();
  }
  lose_peer();
}

void LoopbackChannel::lose_peer() noexcept {
  peer_ = nullptr;
  // A channel whose kOpened has not been polled first says that, then that it is closed.
  if (state_ == State::kOpen) state_ = State::kClosing;
}

bool LoopbackChannel::has_work() const noexcept {
  if (state_ != State::kOpen || peer_ == nullptr) return state_ != State::kDead;
  if (completed_tail_ > completed_head_) return true;
  if (peer_->flushed_ == peer_->head_) return false;
  const Record& next = peer_->records_[peer_->head_ % peer_->capabilities_.depth];
  return !accepted_ || room() > 0 || next.request.op != Op::kSend || next.code != Code::kOk;
}

void LoopbackChannel::complete(const Record& record, Code code, uint64_t value) noexcept {
  if (record.request.token == 0 && code == Code::kOk) return;
  completed_[completed_tail_ % capabilities_.depth] = {.token = record.request.token,
                                                       .channel = this,
                                                       .bytes = {},
                                                       .value = value,
                                                       .op = record.request.op,
                                                       .code = code};
  ++completed_tail_;
}

size_t LoopbackChannel::take_from_peer(std::span<Completion> completions) noexcept {
  size_t count = 0;
  size_t messages = 0;
  const size_t messages_max = accepted_ ? room() : capabilities_.depth;
  while (peer_->head_ < peer_->flushed_) {
    const uint64_t index = peer_->head_;
    const Record record = peer_->records_[index % peer_->capabilities_.depth];
    const bool is_message = record.request.op == Op::kSend && record.code == Code::kOk;
    if (is_message && (count == completions.size() || messages == messages_max)) break;
    uint64_t old_value = 0;
    Code code = record.code;
    if (is_message) {
      std::byte* to = received_.get() + messages * capabilities_.message_bytes_max;
      std::memcpy(to, peer_->message_at(index), record.bytes);
      completions[count] = {.channel = this, .bytes = {to, record.bytes}, .op = Op::kReceive};
      ++count;
      ++messages;
    } else if (code == Code::kOk) {
      code = domain_->execute(record.request, old_value);
    }
    // First out of the ring, then into the completions: the two together never exceed the depth.
    ++peer_->head_;
    peer_->complete(record, code, old_value);
    peer_should_look_ = true;
  }
  return count;
}

size_t LoopbackChannel::poll(std::span<Completion> completions) noexcept {
  size_t count = 0;
  if (state_ == State::kOpening && count < completions.size()) {
    completions[count++] = {.channel = this, .op = Op::kOpened};
    state_ = peer_ == nullptr ? State::kClosing : State::kOpen;
  }
  while (completed_head_ < completed_tail_ && count < completions.size()) {
    completions[count++] = completed_[completed_head_++ % capabilities_.depth];
  }
  if (state_ == State::kOpen && peer_ != nullptr) count += take_from_peer(completions.subspan(count));
  if (state_ != State::kClosing) return count;
  while (head_ < tail_ && count < completions.size()) {
    const Record& record = records_[head_++ % capabilities_.depth];
    completions[count++] = {
        .token = record.request.token, .channel = this, .op = record.request.op, .code = Code::kUnavailable};
  }
  if (head_ == tail_ && completed_head_ == completed_tail_ && count < completions.size()) {
    completions[count++] = {.channel = this, .op = Op::kClosed};
    state_ = State::kDead;
  }
  return count;
}

LoopbackDomain::LoopbackDomain(LoopbackHub& hub, std::string address, const LoopbackOptions& options)
    : hub_(&hub),
      address_(std::move(address)),
      options_(options),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  REFRACT_CHECK(wake_fd_ >= 0);
  hub_->domains_.push_back(this);
}

LoopbackDomain::~LoopbackDomain() {
  for (const std::unique_ptr<LoopbackChannel>& channel : channels_) channel->close();
  std::erase(hub_->domains_, this);
  ::close(wake_fd_);
}

size_t LoopbackDomain::poll(std::span<Completion> completions) noexcept {
  std::erase_if(channels_,
                [](const auto& channel) { return channel->state_ == LoopbackChannel::State::kDead; });
  size_t count = 0;
  for (size_t i = 0; i < channels_.size(); ++i) {
    count += channels_[(first_ + i) % channels_.size()]->poll(completions.subspan(count));
  }
  ++first_;
  return count;
}

void LoopbackDomain::flush() noexcept {
  for (const std::unique_ptr<LoopbackChannel>& channel : channels_) {
    if (channel->flushed_ != channel->tail_) channel->peer_should_look_ = true;
    channel->flushed_ = channel->tail_;
    if (!channel->peer_should_look_) continue;
    channel->peer_should_look_ = false;
    if (channel->peer_ != nullptr) channel->peer_->domain_->wake();
  }
}

Reported<RemoteKey> LoopbackDomain::register_region(const RegionSpec& spec) {
  const RemoteKey key{secure_random_u64() | 1};
  if (auto added = regions_.add(spec, key); !added) return report(added.error());
  return key;
}

uint64_t LoopbackDomain::revoke_region(uint16_t region) noexcept {
  return regions_.remove(region);
}

Reported<Channel*> LoopbackDomain::connect(std::string_view address) {
  LoopbackDomain* target = hub_->find(address);
  if (target == nullptr || target == this) {
    return report(Code::kUnavailable, "no domain listens on loopback address " + std::string(address));
  }
  REFRACT_CHECK(target->options_.message_bytes_max == options_.message_bytes_max);
  LoopbackChannel& here = add_channel(/*accepted=*/false);
  LoopbackChannel& there = target->add_channel(/*accepted=*/true);
  here.peer_ = &there;
  there.peer_ = &here;
  target->wake();
  return &here;
}

LoopbackChannel& LoopbackDomain::add_channel(bool accepted) {
  channels_.push_back(std::make_unique<LoopbackChannel>(*this, options_, accepted));
  return *channels_.back();
}

Code LoopbackDomain::execute(const Request& request, uint64_t& old_value) noexcept {
  const RegionTable::Access place{
      .address = request.remote.address, .key = request.remote.key, .bytes = request.local.bytes};
  switch (request.op) {
    case Op::kRead:
      return regions_.read(place, {request.local.data, request.local.bytes});
    case Op::kWrite:
      return regions_.write(place, {request.local.data, request.local.bytes});
    case Op::kCompareSwap:
      return regions_.compare_swap(place, {.compare = request.compare, .operand = request.operand},
                                   old_value);
    default:
      return regions_.fetch_add(place, request.operand, old_value);
  }
}

bool LoopbackDomain::prepare_sleep() noexcept {
  asleep_ = true;
  return std::none_of(channels_.begin(), channels_.end(),
                      [](const auto& channel) { return channel->has_work(); });
}

void LoopbackDomain::woke() noexcept {
  asleep_ = false;
  uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof(count));
}

void LoopbackDomain::wake() noexcept {
  if (!asleep_) return;
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

}  // namespace refract::fabric
