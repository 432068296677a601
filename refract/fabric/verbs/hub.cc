// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/hub.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "refract/fabric/verbs/library.h"
#include "refract/fabric/verbs/work_batch.h"

namespace refract::fabric::verbs {
namespace {

constexpr size_t kNewsATurn = 64;
}  // namespace

Hub::Hub(Domain& introducer, const HubOptions& options, std::unique_ptr<OpenDevice> device) noexcept
    : introducer_(introducer), options_(options), device_(std::move(device)), served_(*device_) {}

Reported<std::unique_ptr<Hub>> Hub::make(Domain& introducer, const HubOptions& options) {
  auto device = OpenDevice::open(options.device);
  if (!device) return report(device.error());
  std::unique_ptr<Hub> hub(new Hub(introducer, options, std::move(*device)));
  if (auto opened = hub->open(); !opened) return report(opened.error());
  return hub;
}

const Channel* Hub::introducer_of(const Channel& channel) const noexcept {
  const auto ours =
      std::ranges::find_if(slots_, [&channel](const auto& slot) { return slot.get() == &channel; });
  return ours == slots_.end() ? nullptr : (*ours)->introducer();
}

Reported<> Hub::open() {
  if (auto opened = open_queues(); !opened) return opened;
  if (!open_alarm()) {
    return report(Code::kSystem, "there is no descriptor for a timer",
                  "raise the limit on open files (ulimit -n)");
  }
  if (options_.connect_by == ConnectBy::kRdmaCm) {
    if (auto manager = connection_manager(); !manager) return report(manager.error());
  }
  batch_ = std::make_unique<WorkBatch>();
  slots_.resize(options_.channels_max);
  for (auto* list : {&active_, &to_flush_, &delivered_, &dead_}) list->reserve(options_.channels_max);
  news_.resize(kNewsATurn);
  wire_.resize(kWireBytesMax);
  return {};
}

Hub::~Hub() {
  slots_.clear();
  close_queues();
}

const Introduction* Hub::peer_of(const Channel& channel) const noexcept {
  const auto link =
      std::ranges::find_if(links_, [&channel](const auto& each) { return each.second.channel == &channel; });
  return link == links_.end() ? nullptr : &link->second.peer;
}

Reported<Channel*> Hub::connect(std::string_view address) {
  const auto refuse = [this](Report why) {
    last_refusal_ = why;
    return report(std::move(why));
  };
  auto channel = introducer_.connect(address);
  if (!channel) return refuse(channel.error());
  auto made = make_channel(**channel);
  if (!made) {
    (*channel)->close();
    links_[*channel] = {};  // What it still says is swallowed.
    return refuse(made.error());
  }
  const bool is_by_exchange = options_.connect_by != ConnectBy::kRdmaCm;
  Link& link = links_[*channel];
  link.channel = *made;
  link.way = is_by_exchange ? Way::kExchange : Way::kRdmaCm;
  link.address = address;
  polls_until_news_ = 0;
  return *made;
}

Reported<> Hub::serve(const Domain::RegionSpec& spec, RemoteKey key) {
  auto added = served_.add(spec, key, options_.chunk_bytes_max);
  if (added) ++counters.registrations;
  return added;
}

void Hub::revoke(uint16_t region) noexcept {
  const Revoked revoked{.header = header_of(Kind::kRevoked), .region = region};
  for (auto& [introducer, link] : links_) {
    if (link.channel == nullptr || std::erase(link.channel->resolved_for_peer, region) == 0) continue;
    // A peer that takes no message now is told by its device, when it asks for the region again.
    (void)tell(*introducer, revoked);
  }
  introducer_.flush();
  (void)served_.remove(region);
}

void Hub::activate(VerbsChannel& channel) noexcept {
  if (!std::exchange(channel.is_active, true)) active_.push_back(&channel);
}

void Hub::will_flush(VerbsChannel& channel) noexcept {
  if (!std::exchange(channel.is_to_flush, true)) to_flush_.push_back(&channel);
}

void Hub::delivered(VerbsChannel& channel) noexcept {
  if (!std::exchange(channel.has_delivered, true)) delivered_.push_back(&channel);
}

size_t Hub::poll(std::span<Completion> completions) noexcept {
  begin_turn();
  (void)drain_completions();
  if (polls_until_events_-- == 0) look_at_device();
  size_t count = give(completions);
  const bool is_waiting = introducing_ > 0 || strangers_ > 0 || passed_on_ > 0 || !deferred_.empty() ||
                          std::ranges::any_of(active_, &VerbsChannel::is_asking);
  if (is_waiting || polls_until_news_-- == 0) {
    (void)hear_manager();
    count += hear_introducer(completions.subspan(count));
    count += give(completions.subspan(count));
  }
  return count;
}

void Hub::begin_turn() noexcept {
  for (VerbsChannel* const channel : delivered_) {
    channel->has_delivered = false;
    channel->turn_began();
  }
  delivered_.clear();
  given_.clear();
  destroy_closed();
  if (device_lost_) leave_device();
  if (receives_ != nullptr) receives_->repost();
}

void Hub::destroy_closed() noexcept {
  for (VerbsChannel* const channel : dead_) {
    for (auto* list : {&active_, &to_flush_, &delivered_}) std::erase(*list, channel);
    spare_memory_.push_back(channel->take_memory());
    slots_[channel->slot()].reset();
  }
  dead_.clear();
}

size_t Hub::give(std::span<Completion> completions) noexcept {
  size_t count = 0;
  for (size_t i = 0; i < active_.size();) {
    VerbsChannel& channel = *active_[i];
    const bool was_dead = channel.phase() == VerbsChannel::Phase::kDead;
    count += channel.give(completions.subspan(count));
    if (channel.has_work()) {
      ++i;
      continue;
    }
    channel.is_active = false;
    active_[i] = active_.back();
    active_.pop_back();
    if (channel.phase() == VerbsChannel::Phase::kDead && !was_dead) dead_.push_back(&channel);
    if (channel.phase() == VerbsChannel::Phase::kWaiting) return_later(channel);
  }
  // The channel that came last when completions were short comes first in the next poll.
  if (active_.size() > 1) std::swap(active_.front(), active_[first_++ % active_.size()]);
  return count;
}

void Hub::flush() noexcept {
  for (size_t i = 0; i < to_flush_.size(); ++i) {
    VerbsChannel& channel = *to_flush_[i];
    channel.is_to_flush = false;
    if (!channel.issue(*batch_)) lose(channel, counters.other_errors);
  }
  to_flush_.clear();
  introducer_.flush();
}

size_t Hub::drain_completions() noexcept {
  if (completion_queue_ == nullptr) return 0;
  std::array<ibv_wc, kCompletionsABatch> done;
  size_t count = 0;
  for (int batch = 0; batch < kBatchesATurn; ++batch) {
    const int found = ::ibv_poll_cq(completion_queue_, kCompletionsABatch, done.data());
    if (found < 0) {
      lose_all("it no longer says what has completed");
      break;
    }
    for (const ibv_wc& each : std::span(done).first(static_cast<size_t>(found))) take_completion(each);
    count += static_cast<size_t>(found);
    if (found < kCompletionsABatch) break;
  }
  return count;
}

void Hub::take_completion(const ibv_wc& done) noexcept {
  if ((done.wr_id & kSendBit) != 0) {
    ++counters.completions;
    VerbsChannel* const channel = slots_[WorkId::from(done.wr_id).slot].get();
    if (channel == nullptr || !channel->owns(done.wr_id) || channel->take_sent(done)) return;
    if (done.status == IBV_WC_REM_ACCESS_ERR) return lose(*channel, counters.remote_access_errors);
    const bool is_gone = done.status == IBV_WC_RETRY_EXC_ERR || done.status == IBV_WC_RNR_RETRY_EXC_ERR;
    return lose(*channel, is_gone ? counters.retries_exceeded : counters.other_errors,
                device_->calls().wc_status_str(done.status));
  }
  const auto buffer = static_cast<uint32_t>(done.wr_id);
  const auto owner = by_number_.find(done.qp_num);
  if (owner == by_number_.end() || done.status != IBV_WC_SUCCESS) {
    receives_->recycle(buffer);
    if (owner != by_number_.end()) lose(*owner->second, counters.other_errors);
    return;
  }
  ++counters.receives;
  VerbsChannel& channel = *owner->second;
  const uint32_t immediate = ntohl(done.imm_data);
  if ((immediate & kIsGreeting) != 0) return hear_greeting(channel, buffer, done.byte_len);
  if (channel.phase() == VerbsChannel::Phase::kUnborn || channel.phase() == VerbsChannel::Phase::kWaiting) {
    // The greeting comes first.
    receives_->recycle(buffer);
    return expel(channel);
  }
  if (!channel.take_message(buffer, done.byte_len, immediate)) expel(channel);
}

void Hub::lose(VerbsChannel& channel, uint64_t& counter, std::string_view how) noexcept {
  ++counter;
  // The cause may be an event that waits to be read.
  polls_until_events_ = 0;
  Channel* const introducer = channel.introducer();
  const auto link = links_.find(introducer);
  const bool is_linked = link != links_.end();
  if (!accepted() && is_linked && link->second.stage != Stage::kNone) {
    return came_to_nothing(*introducer, link->second, no_way_through(link->second, how));
  }
  // The buffer of a message that was half here is not given back.
  (void)receives_->add(1);
  if (!accepted()) return channel.cut(/*returning=*/introducer != nullptr);
  if (!is_linked) return channel.cut(/*returning=*/false);
  const Broken broken{
      .header = header_of(Kind::kBroken), .queue_pair = link->second.peer.queue_pair, .reserved = 0};
  link->second.channel = nullptr;
  enter(link->second, Stage::kNone);
  channel.set_introducer(nullptr);
  if (channel.phase() == VerbsChannel::Phase::kUnborn) {
    channel.abandon();
    dead_.push_back(&channel);
  } else {
    channel.cut(/*returning=*/false);
  }
  (void)tell(*introducer, broken);
}

void Hub::expel(VerbsChannel& channel) noexcept {
  ++counters.malformed;
  let_go(channel);
  if (channel.phase() != VerbsChannel::Phase::kUnborn) return channel.cut(/*returning=*/false);
  if (!accepted()) return channel.failed(Code::kMalformed);
  channel.abandon();
  dead_.push_back(&channel);
}

void Hub::let_go(VerbsChannel& channel) noexcept {
  Channel* const introducer = channel.introducer();
  if (introducer == nullptr) return;
  const auto link = links_.find(introducer);
  if (link != links_.end()) {
    enter(link->second, Stage::kNone);
    link->second.channel = nullptr;
  }
  channel.set_introducer(nullptr);
  introducer->close();
  polls_until_news_ = 0;
}

bool Hub::prepare_sleep() noexcept {
  polls_until_news_ = 0;
  const bool introducer_sleeps = introducer_.prepare_sleep();
  look_at_device();
  if (device_lost_) leave_device();
  const bool has_connected = hear_manager();
  // Armed first, then looked at: what comes after the look rings.
  if (completion_queue_ != nullptr) (void)::ibv_req_notify_cq(completion_queue_, /*solicited_only=*/0);
  const size_t found = drain_completions();
  set_alarm();
  return introducer_sleeps && !has_connected && found == 0 && active_.empty() && to_flush_.empty() &&
         deferred_.empty() && dead_.empty();
}

void Hub::woke() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (events_ != nullptr && device_->calls().get_cq_event(events_, &queue, &context) == 0) ++events;
  if (events > 0) device_->calls().ack_cq_events(completion_queue_, events);
  clear_alarm();
  introducer_.woke();
  polls_until_news_ = 0;
}

}  // namespace refract::fabric::verbs
