// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/dispatcher.h"

#include <algorithm>

#include "refract/base/log.h"

namespace refract::fabric {
namespace {

// The context of detached channels: theirs is not null, or they would look like freshly accepted ones.
constinit Endpoint detached;

}  // namespace

void Receiver::on_opened(Channel& /*channel*/, Code /*code*/) noexcept {}
void Receiver::on_closed(Channel& /*channel*/, Code /*code*/) noexcept {}

void attach(Channel& channel, Endpoint& endpoint) noexcept {
  channel.context = &endpoint;
  endpoint.channel = &channel;
}

void detach(Endpoint& endpoint) noexcept {
  if (endpoint.channel != nullptr) endpoint.channel->context = &detached;
  endpoint.channel = nullptr;
}

Dispatcher::Dispatcher(Domain& domain, runtime::Shard& shard, Receiver* accepted)
    : domain_(&domain), shard_(&shard), accepted_(accepted) {
  shard_->add(*this);
  watch_descriptors();
}

Dispatcher::~Dispatcher() {
  for (const int fd : watched_) shard_->unwatch(fd);
  shard_->remove(*this);
}

size_t Dispatcher::poll() noexcept {
  const size_t count = domain_->poll(completions_);
  for (size_t i = 0; i < count;) {
    const Completion& completion = completions_[i];
    switch (completion.op) {
      case Op::kReceive: {
        Receiver* receiver = receiver_of(*completion.channel);
        size_t end = i + 1;
        while (end < count && completions_[end].op == Op::kReceive &&
               receiver_of(*completions_[end].channel) == receiver) {
          ++end;
        }
        deliver(std::span(completions_).subspan(i, end - i), receiver);
        i = end;
        continue;
      }
      case Op::kOpened:
      case Op::kClosed:
        change_state(completion);
        break;
      default:
        if (completion.token == 0) {
          ++counts_.failed_silent;
        } else {
          (void)shard_->ops().complete(completion.token,
                                       {.code = completion.code, .value = completion.value});
        }
    }
    ++i;
  }
  domain_->flush();
  return count;
}

bool Dispatcher::prepare_sleep() noexcept {
  // A poller or timer behind this one may have posted since the last turn.
  domain_->flush();
  return domain_->prepare_sleep();
}

Receiver* Dispatcher::receiver_of(const Channel& channel) const noexcept {
  return channel.context == nullptr ? accepted_ : static_cast<const Endpoint*>(channel.context)->receiver;
}

void Dispatcher::deliver(std::span<const Completion> messages, Receiver* receiver) noexcept {
  if (receiver == nullptr) {
    counts_.dropped_messages += messages.size();
    return;
  }
  receiver->on_messages(messages);
}

void Dispatcher::change_state(const Completion& completion) noexcept {
  Channel& channel = *completion.channel;
  Receiver* receiver = receiver_of(channel);
  const bool is_open = completion.op == Op::kOpened && completion.code == Code::kOk;
  const bool lives = is_open || (completion.op == Op::kClosed && completion.value != 0);
  if (!lives && channel.context != nullptr && channel.context != &detached) {
    static_cast<Endpoint*>(channel.context)->channel = nullptr;
  }
  watch_descriptors();
  if (receiver == nullptr) {
    if (is_open && channel.context == nullptr) channel.close();
  } else if (completion.op == Op::kOpened) {
    receiver->on_opened(channel, completion.code);
  } else {
    receiver->on_closed(channel, completion.code);
  }
}

void Dispatcher::watch_descriptors() noexcept {
  const std::span<const int> wanted = domain_->wake_descriptors();
  std::erase_if(watched_, [&](int fd) {
    if (std::find(wanted.begin(), wanted.end(), fd) != wanted.end()) return false;
    shard_->unwatch(fd);
    return true;
  });
  for (const int fd : wanted) {
    if (std::find(watched_.begin(), watched_.end(), fd) != watched_.end()) continue;
    if (shard_->watch(fd)) {
      watched_.push_back(fd);
    } else {
      log_error("cannot wait for descriptor {} of provider {}: wake-ups may come late", fd,
                domain_->provider());
    }
  }
}

}  // namespace refract::fabric
