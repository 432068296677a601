// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/wrap/wrapped_domain.h"

namespace refract::fabric {
namespace {

[[nodiscard]] bool is_end(const Completion& completion) noexcept {
  return completion.op == Op::kClosed || (completion.op == Op::kOpened && completion.code != Code::kOk);
}

}  // namespace

WrappedChannel::WrappedChannel(WrappedDomain& domain, Channel& inner) noexcept
    : domain_(&domain), inner_(&inner), capabilities_(inner.capabilities()) {}

size_t WrappedChannel::post(std::span<const Request> requests) noexcept {
  // A short count is right even for a channel that has ended inside: the next poll shows the end outside too.
  return inner_ == nullptr ? 0 : domain_->do_post(*this, requests);
}

size_t WrappedChannel::room() const noexcept {
  return inner_ == nullptr ? 0 : domain_->do_room(*this);
}

Channel::LocalView WrappedChannel::local_view() const noexcept {
  return inner_ == nullptr ? LocalView{} : inner_->local_view();
}

bool WrappedChannel::refresh_local_view() noexcept {
  return inner_ != nullptr && inner_->refresh_local_view();
}

void WrappedChannel::close() noexcept {
  if (inner_ != nullptr) inner_->close();
}

WrappedDomain::~WrappedDomain() {
  for (const std::unique_ptr<WrappedChannel>& channel : channels_) {
    if (channel->inner_ != nullptr) channel->inner_->close();
  }
}

size_t WrappedDomain::do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept {
  return channel.inner()->post(requests);
}

size_t WrappedDomain::do_room(const WrappedChannel& channel) const noexcept {
  return channel.inner()->room();
}

size_t WrappedDomain::take(std::span<Completion> completions) noexcept {
  return poll_inner(completions);
}

size_t WrappedDomain::poll(std::span<Completion> completions) noexcept {
  // The pointers that the last poll declared dead.
  if (some_ended_) {
    std::erase_if(channels_, [](const auto& channel) { return channel->ended_; });
    some_ended_ = false;
  }
  const size_t count = take(completions);
  for (const Completion& completion : completions.first(count)) {
    if (!is_end(completion)) continue;
    static_cast<WrappedChannel*>(completion.channel)->ended_ = true;
    some_ended_ = true;
  }
  return count;
}

size_t WrappedDomain::poll_inner(std::span<Completion> completions) noexcept {
  const size_t count = inner_->poll(completions);
  for (Completion& completion : completions.first(count)) {
    WrappedChannel& channel = wrapper_of(*completion.channel);
    completion.channel = &channel;
    if (completion.op == Op::kOpened) channel.capabilities_ = channel.inner_->capabilities();
    if (is_end(completion)) channel.inner_ = nullptr;
  }
  return count;
}

Reported<Channel*> WrappedDomain::connect(std::string_view address) {
  Reported<Channel*> channel = inner_->connect(address);
  if (!channel) return channel;
  return &wrapper_of(**channel);
}

WrappedChannel& WrappedDomain::wrapper_of(Channel& inner) {
  if (inner.context == nullptr) {
    channels_.push_back(std::make_unique<WrappedChannel>(*this, inner));
    inner.context = channels_.back().get();
  }
  return *static_cast<WrappedChannel*>(inner.context);
}

}  // namespace refract::fabric
