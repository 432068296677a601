// SPDX-License-Identifier: Apache-2.0
// How two queue pairs come to know each other, over a channel that both ends trust already.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/fabric/verbs/hub.h"

namespace refract::fabric::verbs {
namespace {

using Phase = VerbsChannel::Phase;

}  // namespace

bool Hub::tell_bytes(Channel& introducer, std::span<const std::byte> message) noexcept {
  Request request;
  // A message's bytes are only read, until post returns.
  request.local = {const_cast<std::byte*>(message.data()), message.size()};
  request.tail = {};
  return introducer.post({&request, 1}) == 1;
}

Reported<VerbsChannel*> Hub::make_channel(Channel& introducer) {
  look_at_device();
  if (device_lost_) {
    if (auto back = come_back(); !back) return report(back.error());
  }
  const auto free = std::ranges::find_if(slots_, [](const auto& slot) { return slot == nullptr; });
  if (free == slots_.end()) {
    return report(Code::kOverloaded,
                  fmt::format("all {} RDMA channels of this shard are taken", slots_.size()),
                  "connect without RDMA, or raise the number of channels");
  }
  if (spare_memory_.empty()) {
    auto memory = DeviceMemory::make(*device_, kCredits * kMessageBytesMax + kBounceBytes);
    if (!memory) return report(memory.error());
    if (auto added = receives_->add(kReceivesEach); !added) return report(added.error());
    spare_memory_.push_back(std::move(*memory));
  }
  const auto slot = static_cast<uint32_t>(free - slots_.begin());
  *free = std::make_unique<VerbsChannel>(*this, slot, std::move(spare_memory_.back()));
  spare_memory_.pop_back();
  (*free)->set_introducer(&introducer);
  return free->get();
}

// The connecting end, when the introducer's channel is open or the queue pair before was lost.
void Hub::introduce(Channel& introducer, Link& link) noexcept {
  VerbsChannel& channel = *link.channel;
  look_at_device();
  if (link.channel == nullptr) return;  // It went with the device.
  if (device_lost_) return refused(link, why_lost_);
  if (auto up = device_->check_port(); !up) return refused(link, up.error());
  auto pair = QueuePair::make(*device_, {.completions = completion_queue_, .receives = receives_->queue()},
                              device_->choice().gid);
  if (!pair) return refused(link, pair.error());
  by_number_[(*pair)->number()] = &channel;
  const Introduction introduction = (*pair)->introduction(Kind::kIntroduction);
  channel.set_queue_pair(std::move(*pair));
  if (!tell(introducer, introduction)) {
    return refused(link, {Code::kUnavailable, "the introducing channel takes no message", ""});
  }
  introducer_.flush();
  if (link.due_ns == 0) ++introducing_;
  link.due_ns = system_clock().now_ns() + kIntroductionTimeout_ns;
}

void Hub::return_later(VerbsChannel& channel) noexcept {
  const auto link = links_.find(channel.introducer());
  const bool is_possible = link != links_.end() && link->second.is_open && link->second.channel == &channel;
  if (is_possible && channel.queue_pair() == nullptr) introduce(*channel.introducer(), link->second);
}

// The address by which this end answers: of the peer's kind, or there is no path.
Reported<GidFacts> Hub::gid_for(const Introduction& peer) const {
  const DeviceChoice& choice = device_->choice();
  const auto kind = static_cast<GidKind>(peer.gid_kind);
  const bool is_same_link = static_cast<LinkLayer>(peer.link_layer) == choice.link_layer;
  const GidFacts* const found = choice.gid.kind == kind ? &choice.gid : gid_of_kind(device_->port(), kind);
  if (is_same_link && found != nullptr) return *found;
  return report(Code::kUnsupported,
                fmt::format("port {} of {} has no {} address to answer a {} address from", choice.port,
                            choice.device, text(kind), text(kind)),
                "choose addresses of one kind at both ends (device, GID index)");
}

Reported<VerbsChannel*> Hub::admit_peer(Channel& introducer, const Introduction& peer) {
  look_at_device();
  if (auto up = device_->check_port(); !up) return report(up.error());
  auto gid = gid_for(peer);
  if (!gid) return report(gid.error());
  auto channel = make_channel(introducer);
  if (!channel) return report(channel.error());
  auto pair =
      QueuePair::make(*device_, {.completions = completion_queue_, .receives = receives_->queue()}, *gid);
  if (pair) {
    by_number_[(*pair)->number()] = *channel;
    (*channel)->set_queue_pair(std::move(*pair));
    auto met = (*channel)->meet(peer);
    if (met) return *channel;
    pair = report(met.error());
  }
  (*channel)->abandon();
  dead_.push_back(*channel);
  return report(pair.error());
}

// The accepting end: a peer, or one that we know whose queue pair was lost.
void Hub::admit(Channel& introducer, Link& link, const Introduction& peer) noexcept {
  if (VerbsChannel* const before = std::exchange(link.channel, nullptr); before != nullptr) {
    before->set_introducer(nullptr);
    if (before->phase() == Phase::kUnborn) {
      before->abandon();
      dead_.push_back(before);
    } else {
      before->cut(/*returning=*/false);
    }
  }
  auto channel = admit_peer(introducer, peer);
  if (!channel) {
    last_refusal_ = channel.error();
    (void)tell(introducer, encode_refusal(channel.error()));
    return;
  }
  link.channel = *channel;
  if (!tell(introducer, (*channel)->queue_pair()->introduction(Kind::kAcceptance))) return expel(**channel);
}

// The connecting end.
void Hub::accept(Channel& introducer, Link& link, const Introduction& peer) noexcept {
  if (link.due_ns == 0 || link.channel == nullptr || link.channel->queue_pair() == nullptr) return;
  if (auto met = link.channel->meet(peer); !met) return refused(link, met.error());
  if (!tell(introducer, Notice{.header = header_of(Kind::kReady)})) {
    return refused(link, {Code::kUnavailable, "the introducing channel takes no message", ""});
  }
  link.due_ns = 0;
  --introducing_;
  link.channel->opened();
}

void Hub::refused(Link& link, Report why) noexcept {
  VerbsChannel* const channel = link.channel;
  if (channel == nullptr) return;
  const Code code = why.code == Code::kSystem ? Code::kUnavailable : why.code;
  last_refusal_ = std::move(why);
  let_go(*channel);
  if (channel->phase() == Phase::kUnborn) return channel->failed(code);
  channel->cut(/*returning=*/false);
}

void Hub::give_up_late(uint64_t now_ns) noexcept {
  for (auto& [introducer, link] : links_) {
    if (link.due_ns == 0 || now_ns < link.due_ns) continue;
    refused(link, {Code::kUnavailable, "the peer did not answer the introduction",
                   "see that it is alive and serves RDMA"});
  }
}

}  // namespace refract::fabric::verbs
