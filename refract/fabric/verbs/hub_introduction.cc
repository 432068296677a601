// SPDX-License-Identifier: Apache-2.0
// How two queue pairs come to know each other, over a channel that both ends trust already.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/fabric/verbs/hub.h"

namespace refract::fabric::verbs {
namespace {

using Phase = VerbsChannel::Phase;

std::string_view text(Way way) noexcept {
  return way == Way::kExchange ? "by exchange of queue pair numbers" : "by librdmacm";
}

Way other(Way way) noexcept {
  return way == Way::kExchange ? Way::kRdmaCm : Way::kExchange;
}

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

uint32_t Hub::path_mtu_bytes(const Link& link) const noexcept {
  return std::min(link.peer.mtu_bytes, device_->choice().mtu_bytes);
}

Hub::Failure Hub::no_way_through(const Link& link, std::string_view how) const {
  const DeviceChoice& here = device_->choice();
  if (link.stage == Stage::kAsked) {
    return {.why = {Code::kUnavailable,
                    fmt::format("the peer did not answer the introduction of {} ({}): {}", here.device,
                                here.gid.to_string(), how),
                    "see that it is alive and serves RDMA"}};
  }
  const std::string there = GidFacts{.gid = link.peer.gid, .interface = {}}.to_string();
  if (link.stage == Stage::kConnecting) {
    return {.why = {Code::kUnavailable,
                    fmt::format("no connection came about from {} ({}) to {}: {}", here.device,
                                here.gid.to_string(), there, how),
                    fmt::format("see that the two addresses reach each other (ping -I {} {}); refract doctor "
                                "--peer {} may tell more",
                                here.gid.to_string(), there, link.address)},
            .hope = Hope::kOtherWayOrTime};
  }
  return {.why = {Code::kUnavailable,
                  fmt::format("{} ({}, MTU {}) and the peer's device ({}, MTU {}) were introduced, but no "
                              "message of {} bytes comes through between them: {}",
                              here.device, here.gid.to_string(), here.mtu_bytes, there, link.peer.mtu_bytes,
                              path_mtu_bytes(link), how),
                  fmt::format("see that full packets pass between the two addresses (ping -M do -s {} -I {} "
                              "{}), or name another device; refract doctor --peer {} may tell more",
                              path_mtu_bytes(link), here.gid.to_string(), there, link.address)},
          .hope = Hope::kOtherWayOrTime};
}

void Hub::enter(Link& link, Stage stage, uint64_t timeout_ns) noexcept {
  if (link.due_ns != 0) --introducing_;
  link.stage = stage;
  link.due_ns = timeout_ns == 0 ? 0 : system_clock().now_ns() + timeout_ns;
  if (link.due_ns != 0) ++introducing_;
}

// The connecting end, when the introducer's channel is open or the queue pair before was lost.
void Hub::introduce(Channel& introducer, Link& link) noexcept {
  VerbsChannel& channel = *link.channel;
  const auto fails = [&](Report why, Hope hope) {
    came_to_nothing(introducer, link, {.why = std::move(why), .hope = hope});
  };
  look_at_device();
  if (link.channel == nullptr) return;  // It went with the device.
  if (device_lost_) return fails(why_lost_, Hope::kNone);
  if (auto up = device_->check_port(); !up) return fails(up.error(), Hope::kTime);
  if (link.way == Way::kRdmaCm) {
    if (auto manager = connection_manager(); !manager) return fails(manager.error(), Hope::kOtherWay);
  }
  auto pair = QueuePair::make(*device_, {.completions = completion_queue_, .receives = receives_->queue()},
                              device_->choice().gid);
  if (!pair) return fails(pair.error(), Hope::kNone);
  Introduction introduction = (*pair)->introduction(Kind::kIntroduction);
  introduction.way = link.way;
  by_number_[(*pair)->number()] = &channel;
  channel.set_queue_pair(std::move(*pair));
  if (!tell(introducer, introduction)) {
    return fails({Code::kUnavailable, "the introducing channel takes no message", ""}, Hope::kNone);
  }
  introducer_.flush();
  enter(link, Stage::kAsked, kIntroductionTimeout_ns);
}

void Hub::return_later(VerbsChannel& channel) noexcept {
  const auto link = links_.find(channel.introducer());
  const bool is_possible = link != links_.end() && link->second.is_open && link->second.channel == &channel;
  if (is_possible && link->second.stage == Stage::kNone) introduce(*channel.introducer(), link->second);
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

Reported<> Hub::set_up(VerbsChannel& channel, const Introduction& peer, const GidFacts& gid) {
  auto pair =
      QueuePair::make(*device_, {.completions = completion_queue_, .receives = receives_->queue()}, gid);
  if (!pair) return report(pair.error());
  by_number_[(*pair)->number()] = &channel;
  channel.set_queue_pair(std::move(*pair));
  if (peer.way == Way::kExchange) return channel.meet(peer);
  channel.agree(peer);
  return {};
}

Reported<VerbsChannel*> Hub::admit_peer(Channel& introducer, const Introduction& peer,
                                        Introduction& acceptance) {
  look_at_device();
  if (auto up = device_->check_port(); !up) return report(up.error());
  const bool is_exchange = peer.way == Way::kExchange;
  if (options_.connect_by == (is_exchange ? ConnectBy::kRdmaCm : ConnectBy::kExchange)) {
    return report(Code::kUnsupported, fmt::format("this end does not connect {} (connect_by {})",
                                                  text(peer.way), verbs::text(options_.connect_by)));
  }
  auto gid = gid_for(peer);
  if (!gid) return report(gid.error());
  uint16_t port = 0;
  if (!is_exchange) {
    auto manager = connection_manager();
    if (!manager) return report(manager.error());
    auto listening = (*manager)->listen(*gid);
    if (!listening) return report(listening.error());
    port = *listening;
  }
  auto channel = make_channel(introducer);
  if (!channel) return report(channel.error());
  if (auto done = set_up(**channel, peer, *gid); !done) {
    (*channel)->abandon();
    dead_.push_back(*channel);
    return report(done.error());
  }
  acceptance = (*channel)->queue_pair()->introduction(Kind::kAcceptance);
  acceptance.way = peer.way;
  acceptance.port = port;
  if (!is_exchange) acceptance.token = std::max<uint64_t>(secure_random_u64(), 1);
  return *channel;
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
  link.peer = peer;
  link.token = 0;
  enter(link, Stage::kNone);
  Introduction acceptance{};
  auto channel = admit_peer(introducer, peer, acceptance);
  if (!channel) {
    last_refusal_ = channel.error();
    (void)tell(introducer, encode_refusal(channel.error()));
    return;
  }
  link.channel = *channel;
  link.token = acceptance.token;
  enter(link, peer.way == Way::kExchange ? Stage::kGreeting : Stage::kConnecting);
  if (!tell(introducer, acceptance)) return expel(**channel);
}

// The connecting end.
void Hub::accept(Channel& introducer, Link& link, const Introduction& peer) noexcept {
  VerbsChannel* const channel = link.channel;
  if (link.stage != Stage::kAsked || channel == nullptr || channel->queue_pair() == nullptr) return;
  if (peer.way != link.way) return expel(*channel);
  link.peer = peer;
  const auto fails = [&](Report why) {
    came_to_nothing(introducer, link, {.why = std::move(why), .hope = Hope::kOtherWayOrTime});
  };
  if (link.way == Way::kExchange) {
    if (auto met = channel->meet(peer); !met) return fails(met.error());
    return greet(introducer, link);
  }
  auto manager = connection_manager();
  if (!manager) return fails(manager.error());
  channel->agree(peer);
  enter(link, Stage::kConnecting, kIntroductionTimeout_ns);
  const ConnectionManager::Target target{
      .pair = channel->queue_pair(), .here = &device_->choice().gid, .peer = peer};
  if (auto begun = (*manager)->connect(target); !begun) return fails(begun.error());
}

// The connecting end: as far as it knows, both can receive now.
void Hub::greet(Channel& introducer, Link& link) noexcept {
  enter(link, Stage::kGreeting, kIntroductionTimeout_ns);
  Failure failure = no_way_through(link, "nothing has come back yet");
  not_yet_ = failure.why;
  if (!link.channel->greet(*batch_, path_mtu_bytes(link))) {
    came_to_nothing(introducer, link, std::move(failure));
  }
}

// What ends an introduction: the connecting end's greeting, which the accepting one returns.
void Hub::hear_greeting(VerbsChannel& channel, uint32_t buffer, uint32_t bytes) noexcept {
  const auto found = links_.find(channel.introducer());
  const bool is_due = found != links_.end() && found->second.channel == &channel &&
                      found->second.stage == Stage::kGreeting &&
                      is_greeting({receives_->buffer(buffer), bytes}, path_mtu_bytes(found->second));
  receives_->recycle(buffer);
  if (!is_due) return expel(channel);
  Link& link = found->second;
  enter(link, Stage::kNone);
  link.has_turned = false;
  link.gone_since_ns = 0;
  link.before = {};
  not_yet_ = {Code::kOk, {}, {}};
  channel.opened();
  if (accepted() && !channel.greet(*batch_, path_mtu_bytes(link))) lose(channel, counters.other_errors);
}

// The connecting end. The other way has its turn, if there is one; a channel that was open has some patience.
void Hub::came_to_nothing(Channel& introducer, Link& link, Failure failure) noexcept {
  VerbsChannel* const channel = link.channel;
  if (link.stage == Stage::kGreeting) ++counters.greetings_lost;
  enter(link, Stage::kNone);
  if (channel == nullptr) return;
  channel->drop_queue_pair();
  const std::string what = fmt::format("{}: {}", text(link.way), failure.why.what);
  const bool may_turn = failure.hope == Hope::kOtherWay || failure.hope == Hope::kOtherWayOrTime;
  if (options_.connect_by == ConnectBy::kAuto && may_turn && !link.has_turned) {
    link.has_turned = true;
    link.before = std::move(failure);
    link.before.why.what = what;
    link.way = other(link.way);
    return introduce(introducer, link);
  }
  if (std::exchange(link.has_turned, false)) {
    // What promised more is what a person has to mend.
    const std::string both = fmt::format("{}\n{}", link.before.why.what, what);
    if (link.before.hope >= failure.hope) failure = std::move(link.before);
    failure.why.what = both;
    link.before = {};
    // So that the next round begins with what worked last.
    link.way = other(link.way);
  }
  const uint64_t now_ns = system_clock().now_ns();
  if (link.gone_since_ns == 0) link.gone_since_ns = now_ns;
  const bool has_patience = channel->phase() == Phase::kWaiting && link.is_open &&
                            failure.hope >= Hope::kTime && now_ns - link.gone_since_ns < kReturnPatience_ns;
  if (!has_patience) return refused(link, std::move(failure.why));
  last_refusal_ = std::move(failure.why);
  enter(link, Stage::kPausing, kPause_ns);
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
    if (link.stage == Stage::kPausing) {
      enter(link, Stage::kNone);
      if (link.channel != nullptr) introduce(*introducer, link);
      continue;
    }
    came_to_nothing(
        *introducer, link,
        no_way_through(link, fmt::format("nothing came for {} s", kIntroductionTimeout_ns / kSecond_ns)));
  }
}

}  // namespace refract::fabric::verbs
