// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/domain.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/check.h"

namespace refract::sim {

using fabric::Completion;
using fabric::Op;
using fabric::Request;

SimChannel::SimChannel(SimDomain* domain, Connection* connection, uint8_t end)
    : domain_(domain), connection_(connection), end_(end) {
  outstanding_.reserve(domain_->options().depth);
  connection_->ends[end_].channel = this;
}

SimChannel::~SimChannel() {
  for (Packet* packet : outstanding_) {
    packet->abandoned = true;
    domain_->network_->release(packet);
  }
  connection_->ends[end_].channel = nullptr;
  connection_->ends[end_].dead = true;
}

const fabric::Capabilities& SimChannel::capabilities() const noexcept {
  return domain_->capabilities_;
}

size_t SimChannel::room() const noexcept {
  const size_t depth = domain_->options().depth;
  if (state_ == State::kDead) return depth;
  if (state_ == State::kOpening) return 0;
  return depth - std::min(depth, outstanding_.size() + squeeze_);
}

// Only the connecting end: a server that was promised room for its reply must find it.
void SimChannel::draw_room() noexcept {
  Prng& prng = domain_->host_->world().prng();
  const bool squeezed = end_ == 0 && prng.chance(domain_->options().short_post_chance);
  squeeze_ = squeezed ? prng.below(domain_->options().depth - 1) : 0;  // An idle one has room for two.
}

size_t SimChannel::post(std::span<const Request> requests) noexcept {
  if (domain_->silent_) return requests.size();
  size_t taken = 0;
  for (const Request& request : requests) {
    if (state_ == State::kDead) {
      complete_now(request, Code::kUnavailable);
    } else if (room() == 0) {
      // Nothing else may ever move this host again; it must get a turn to post the rest.
      if (squeeze_ > 0) domain_->host_->poll_again();
      break;
    } else {
      take(request);
    }
    ++taken;
  }
  return taken;
}

void SimChannel::take(const Request& request) noexcept {
  const bool atomic = request.op == Op::kCompareSwap || request.op == Op::kFetchAdd;
  if (request.op == Op::kSend &&
      request.local.bytes + request.tail.bytes > domain_->options().message_bytes_max) {
    return complete_now(request, Code::kTooLarge);
  }
  if (atomic && request.remote.address.offset() % 8 != 0)
    return complete_now(request, Code::kInvalidArgument);
  Packet* packet = domain_->network_->take_packet();
  packet->op = request.op;
  packet->from = end_;
  packet->connection = connection_;
  packet->token = request.token;
  packet->local = request.local;
  packet->compare = request.compare;
  packet->operand = request.operand;
  packet->log_position = domain_->host_->log_position();
  packet->remote = request.op == Op::kSend ? fabric::RemoteSpan{} : request.remote;
  packet->references = 2;
  outstanding_.push_back(packet);
  domain_->staged_.push_back(packet);
  if (request.op != Op::kSend && request.local.bytes > RemotePointer::kOffsetMask) {
    packet->code = Code::kAccessDenied;  // No region is so large, and the local bytes cannot be there.
    return packet->set_bytes(0);
  }
  packet->set_bytes(atomic ? 8 : request.local.bytes + (request.op == Op::kSend ? request.tail.bytes : 0));
  if (request.op == Op::kRead || atomic) return;
  if (request.local.bytes > 0) std::memcpy(packet->data(), request.local.data, request.local.bytes);
  if (request.op == Op::kSend && request.tail.bytes > 0) {
    std::memcpy(packet->data() + request.local.bytes, request.tail.data, request.tail.bytes);
  }
}

void SimChannel::complete_now(const Request& request, Code code) noexcept {
  // Nothing follows a channel's last word. It may stand in a batch that its owner is still working on.
  if (said_last_) return;
  domain_->push({.token = request.token, .channel = this, .op = request.op, .code = code}, *this);
}

void SimChannel::close() noexcept {
  if (state_ == State::kDead) return;
  domain_->flush();
  if (!domain_->silent_) domain_->network_->send_close(*connection_, end_);
  closed_here_ = true;
  give_up(state_ == State::kOpen ? Code::kOk : Code::kUnavailable);
}

void SimChannel::opened() noexcept {
  state_ = State::kOpen;
  was_open_ = true;
  domain_->push({.channel = this, .op = Op::kOpened}, *this);
}

void SimChannel::give_up(Code code) noexcept {
  if (state_ == State::kDead) return;
  state_ = State::kDead;
  last_code_ = code;
  connection_->ends[end_].dead = true;
  for (Packet* packet : std::exchange(outstanding_, {})) {
    packet->abandoned = true;
    domain_->push({.token = packet->token, .channel = this, .op = packet->op, .code = Code::kUnavailable},
                  *this);
    domain_->network_->release(packet);
  }
}

void SimChannel::finish(Packet* packet) noexcept {
  const auto found = std::ranges::find(outstanding_, packet);
  REFRACT_CHECK(found != outstanding_.end());
  outstanding_.erase(found);
  if (packet->op == Op::kRead && packet->code == Code::kOk && packet->bytes > 0) {
    domain_->land({packet->data(), packet->bytes}, packet->local.data);
  }
  if (packet->token != 0 || packet->code != Code::kOk) {
    domain_->push({.token = packet->token,
                   .channel = this,
                   .value = packet->value,
                   .op = packet->op,
                   .code = packet->code},
                  *this);
  }
  domain_->network_->release(packet);
}

void SimDomain::land(std::span<const std::byte> bytes, std::byte* target) noexcept {
  std::memcpy(target, bytes.data(), bytes.size());
  VisibleMemory* const memory = host_->memory_;
  if (memory == nullptr || target < memory->owner() || target >= memory->owner() + memory->bytes()) return;
  memory->stored(Offset{static_cast<uint64_t>(target - memory->owner())}, {target, bytes.size()});
}

SimDomain::SimDomain(Host* host, Network* network)
    : host_(host),
      network_(network),
      capabilities_{.depth = options().depth,
                    .message_bytes_max = options().message_bytes_max,
                    .read_bypasses_target_cpu = !options().one_sided_needs_target,
                    .peer_reads_bypass_cpu = !options().one_sided_needs_target,
                    .shared_read_bytes_min = options().shared_read_bytes_min,
                    .atomics_coherent_with_cpu = true,
                    .one_sided_bytes_min = options().one_sided_bytes_min} {
  ready_.reserve(1024);
  staged_.reserve(1024);
  held_.reserve(1024);
}

SimDomain::~SimDomain() {
  for (Packet* packet : staged_) network_->release(packet);
  for (Packet* packet : held_) network_->release(packet);
  for (const Ready& ready : ready_) {
    if (ready.message != nullptr) network_->release(ready.message);
  }
}

const WorldOptions& SimDomain::options() const noexcept {
  return host_->world().options();
}

void SimDomain::push(const Completion& completion, SimChannel& channel) noexcept {
  ready_.push_back({.completion = completion, .channel = &channel, .message = nullptr});
  ++channel.ready_count_;
}

void SimDomain::deliver(Packet* message, SimChannel& channel) noexcept {
  const Completion completion = {
      .channel = &channel, .bytes = {message->data(), message->bytes}, .op = Op::kReceive};
  ready_.push_back({.completion = completion, .channel = &channel, .message = message});
  ++channel.ready_count_;
}

void SimDomain::end_previous_poll() noexcept {
  for (Packet* message : held_) network_->acknowledge(message);
  held_.clear();
  std::erase_if(channels_, [](const auto& channel) { return channel->said_last_; });
  ++poll_number_;
  for (const auto& channel : channels_) channel->draw_room();
}

bool SimDomain::may_deliver(SimChannel& channel) noexcept {
  if (!channel.accepted() || channel.state() == SimChannel::State::kDead) return true;
  if (channel.poll_number_ != poll_number_) {
    channel.poll_number_ = poll_number_;
    channel.messages_left_ = channel.room();
  }
  if (channel.messages_left_ == 0) return false;
  --channel.messages_left_;
  return true;
}

size_t SimDomain::poll(std::span<Completion> completions) noexcept {
  end_previous_poll();
  size_t count = 0;
  size_t kept = 0;
  for (size_t i = 0; i < ready_.size(); ++i) {
    const Ready ready = ready_[i];
    const bool unwanted = ready.message != nullptr && ready.channel->closed_here_;
    if (!unwanted &&
        (count == completions.size() || (ready.message != nullptr && !may_deliver(*ready.channel)))) {
      ready_[kept++] = ready;
      continue;
    }
    --ready.channel->ready_count_;
    if (ready.message != nullptr) held_.push_back(ready.message);
    if (!unwanted) completions[count++] = ready.completion;
  }
  ready_.resize(kept);
  return count + say_last_words(completions.subspan(count));
}

size_t SimDomain::say_last_words(std::span<Completion> completions) noexcept {
  size_t count = 0;
  for (const auto& channel : channels_) {
    if (count == completions.size()) break;
    if (channel->state() != SimChannel::State::kDead || channel->ready_count_ > 0 || channel->said_last_)
      continue;
    channel->said_last_ = true;
    completions[count++] = {.channel = channel.get(),
                            .op = channel->was_open_ ? Op::kClosed : Op::kOpened,
                            .code = channel->last_code_};
  }
  return count;
}

bool SimDomain::prepare_sleep() noexcept {
  return ready_.empty() && staged_.empty();
}

void SimDomain::flush() noexcept {
  for (Packet* packet : staged_) {
    if (silent_) {
      network_->release(packet);
    } else {
      network_->launch(packet);
    }
  }
  staged_.clear();
}

Reported<RemoteKey> SimDomain::register_region(const RegionSpec& spec) {
  RemoteKey key;
  while (key.bits == 0) key.bits = host_->world().prng().next();
  if (auto added = regions_.add(spec, key); !added) return report(added.error());
  return key;
}

uint64_t SimDomain::revoke_region(uint16_t region) noexcept {
  return regions_.remove(region);
}

std::byte* SimDomain::admit(const Packet& packet) const noexcept {
  bool Rights::* const right = packet.op == Op::kRead    ? &Rights::read
                               : packet.op == Op::kWrite ? &Rights::write
                                                         : &Rights::atomic;
  return regions_
      .look_up({.address = packet.remote.address, .key = packet.remote.key, .bytes = packet.bytes}, right)
      .bytes;
}

Reported<fabric::Channel*> SimDomain::connect(std::string_view address) {
  if (address.empty()) {
    return report(Code::kInvalidArgument, "an empty address names no simulated host", "give a host's name");
  }
  Connection& connection = network_->make_connection(*host_);
  channels_.push_back(std::make_unique<SimChannel>(this, &connection, uint8_t{0}));
  if (!silent_) network_->send_open(connection, address);
  return channels_.back().get();
}

SimChannel& SimDomain::accept(Connection& connection) {
  channels_.push_back(std::make_unique<SimChannel>(this, &connection, uint8_t{1}));
  channels_.back()->opened();
  return *channels_.back();
}

}  // namespace refract::sim
