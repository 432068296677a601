// SPDX-License-Identifier: Apache-2.0
// What the channels of a domain share: the device, one completion queue, one shared receive queue, and the
// introducer, a domain that reaches the same peers without RDMA.
//
// An introducer's channel is one of three: ours, with a queue pair beside it for whose life it answers; a
// stranger, which has opened at the accepting end and not spoken; or none of our business, and then its
// completions are handed on as they are. The first message of a stranger decides. See
// docs/design/021-verbs.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/verbs/channel.h"
#include "refract/fabric/verbs/connect_by.h"
#include "refract/fabric/verbs/connection_manager.h"
#include "refract/fabric/verbs/counters.h"
#include "refract/fabric/verbs/device.h"
#include "refract/fabric/verbs/receive_pool.h"
#include "refract/fabric/verbs/registration.h"
#include "refract/fabric/verbs/wire.h"
#include "refract/memory/host/descriptor.h"

struct ibv_comp_channel;  // NOLINT(readability-identifier-naming)

namespace refract::fabric::verbs {

struct HubOptions {
  bool accepted = false;  // The channels are of the accepting end.
  DeviceWish device;
  uint32_t channels_max = 0;     // Fewer where the device's queues are shorter.
  uint64_t chunk_bytes_max = 0;  // Of one registration; 0: what the device allows.
  uint32_t completions_max = 0;  // Of the completion queue; 0: as many as there can be.
  ConnectBy connect_by = ConnectBy::kAuto;
};

class Hub {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<Hub>> make(Domain& introducer, const HubOptions& options);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;
  ~Hub();

  // The domain.

  [[nodiscard]] Reported<Channel*> connect(std::string_view address);
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept;
  void flush() noexcept;
  [[nodiscard]] Reported<> serve(const Domain::RegionSpec& spec, RemoteKey key);
  void revoke(uint16_t region) noexcept;
  [[nodiscard]] bool prepare_sleep() noexcept;
  void woke() noexcept;
  [[nodiscard]] std::span<const int> wake_descriptors() noexcept;
  [[nodiscard]] Domain& introducer() const noexcept { return introducer_; }
  // Null: it is no channel of this hub.
  [[nodiscard]] const Channel* introducer_of(const Channel& channel) const noexcept;
  // What its peer said last; null: it is no channel of this hub, or has no peer.
  [[nodiscard]] const Introduction* peer_of(const Channel& channel) const noexcept;
  [[nodiscard]] const Report& last_refusal() const noexcept {
    return last_refusal_.what.empty() ? not_yet_ : last_refusal_;
  }
  [[nodiscard]] uint32_t channels_max() const noexcept { return options_.channels_max; }

  // For channels.

  [[nodiscard]] bool accepted() const noexcept { return options_.accepted; }
  [[nodiscard]] const OpenDevice& device() const noexcept { return *device_; }
  [[nodiscard]] const ServedRegions& served() const noexcept { return served_; }
  [[nodiscard]] ReceivePool& receives() noexcept { return *receives_; }
  [[nodiscard]] uint32_t next_generation() noexcept { return ++generation_; }
  void forget_queue_pair(uint32_t number) noexcept;
  void activate(VerbsChannel& channel) noexcept;
  void will_flush(VerbsChannel& channel) noexcept;
  void delivered(VerbsChannel& channel) noexcept;
  // Closes the introducer's channel; whatever it still says is swallowed.
  void let_go(VerbsChannel& channel) noexcept;
  // One message over an introducer's channel. False: it takes none now.
  template <typename T>
  [[nodiscard]] bool tell(Channel& introducer, const T& message) noexcept {
    static_assert(std::has_unique_object_representations_v<T>);
    return tell_bytes(introducer, std::as_bytes(std::span(&message, 1)));
  }
  DomainCounters counters;

 private:
  // How far an introduction has come.
  enum class Stage : uint8_t {
    kNone,        // None is under way.
    kAsked,       // The connecting end waits for the acceptance.
    kConnecting,  // librdmacm is at work.
    kGreeting,    // The queue pairs are connected, as far as this end knows.
    kPausing,     // The path is gone; it will be tried again.
  };
  // What may still be tried when an introduction comes to nothing.
  enum class Hope : uint8_t { kNone, kOtherWay, kTime, kOtherWayOrTime };
  struct Failure {
    Report why{};
    Hope hope = Hope::kNone;
  };
  struct Link {
    VerbsChannel* channel = nullptr;
    bool is_stranger = false;
    bool is_open = false;
    bool has_turned = false;  // The other way has had its turn, too.
    Stage stage = Stage::kNone;
    Way way = Way::kExchange;
    uint64_t due_ns = 0;         // When the stage ends; 0: it has no end of its own.
    uint64_t gone_since_ns = 0;  // A channel that was open; 0: its path is not known to be gone.
    uint64_t token = 0;          // The accepting end's; 0: none is out.
    Introduction peer{};         // The last that it said.
    Failure before{};            // Of the way that was tried first.
    std::string address{};       // The connecting end's.
  };
  // The first message of a stranger that is none of ours, which came when there was room for kOpened alone.
  struct Deferred {
    Channel* channel = nullptr;
    std::vector<uint64_t> words;
    size_t bytes = 0;
  };

  Hub(Domain& introducer, const HubOptions& options, std::unique_ptr<OpenDevice> device) noexcept;
  [[nodiscard]] Reported<> open();

  void begin_turn() noexcept;
  void destroy_closed() noexcept;
  size_t drain_completions() noexcept;
  void take_completion(const ibv_wc& done) noexcept;
  [[nodiscard]] size_t give(std::span<Completion> completions) noexcept;
  // The device or the path failed it; `counter` and `how` say how.
  void lose(VerbsChannel& channel, uint64_t& counter, std::string_view how = "the queue pair broke") noexcept;
  // The peer broke the rules: it is cut, its introducer's channel too.
  void expel(VerbsChannel& channel) noexcept;
  void return_later(VerbsChannel& channel) noexcept;

  // The device.
  [[nodiscard]] Reported<> open_queues();
  void close_queues() noexcept;
  [[nodiscard]] bool watch(int descriptor) noexcept;
  void look_at_device() noexcept;
  void hear_device() noexcept;
  // `why`: what is wrong with the device. All channels end.
  void lose_all(std::string_view why) noexcept;
  // Closes a lost device, as soon as no channel needs it any more.
  void leave_device() noexcept;
  [[nodiscard]] Reported<> come_back();

  // The introducer's news.
  [[nodiscard]] size_t hear_introducer(std::span<Completion> completions) noexcept;
  [[nodiscard]] size_t hear_news(const Completion& news, std::span<Completion> completions) noexcept;
  [[nodiscard]] size_t hear_stranger(const Completion& news, std::span<Completion> completions) noexcept;
  void hear_ours(const Completion& news, Link& link) noexcept;
  void introducer_closed(Channel& introducer, Link& link, bool returns) noexcept;
  void hear_message(Channel& introducer, Link& link, std::span<const std::byte> bytes) noexcept;
  void hear_refusal(Channel& introducer, Link& link, Report why) noexcept;
  void hear_broken(Link& link, uint32_t queue_pair) noexcept;
  [[nodiscard]] bool hear_about_regions(Channel& introducer, Link& link, Kind kind,
                                        std::span<const std::byte> message) noexcept;
  [[nodiscard]] bool answer(Channel& introducer, VerbsChannel& channel, const Question& question) noexcept;

  // The introduction.
  void introduce(Channel& introducer, Link& link) noexcept;
  void admit(Channel& introducer, Link& link, const Introduction& peer) noexcept;
  [[nodiscard]] Reported<VerbsChannel*> admit_peer(Channel& introducer, const Introduction& peer,
                                                   Introduction& acceptance);
  [[nodiscard]] Reported<> set_up(VerbsChannel& channel, const Introduction& peer, const GidFacts& gid);
  [[nodiscard]] Reported<GidFacts> gid_for(const Introduction& peer) const;
  void accept(Channel& introducer, Link& link, const Introduction& peer) noexcept;
  void greet(Channel& introducer, Link& link) noexcept;
  void hear_greeting(VerbsChannel& channel, uint32_t buffer, uint32_t bytes) noexcept;
  void enter(Link& link, Stage stage, uint64_t timeout_ns = 0) noexcept;
  void came_to_nothing(Channel& introducer, Link& link, Failure failure) noexcept;
  void refused(Link& link, Report why) noexcept;
  void give_up_late(uint64_t now_ns) noexcept;
  [[nodiscard]] Reported<VerbsChannel*> make_channel(Channel& introducer);
  [[nodiscard]] bool tell_bytes(Channel& introducer, std::span<const std::byte> message) noexcept;
  [[nodiscard]] Failure no_way_through(const Link& link, std::string_view how) const;
  [[nodiscard]] uint32_t path_mtu_bytes(const Link& link) const noexcept;

  // librdmacm's part in it.
  [[nodiscard]] Reported<ConnectionManager*> connection_manager();
  [[nodiscard]] bool hear_manager() noexcept;
  void take_request(ConnectionManager::Outcome& request) noexcept;

  // Sleeping while something is due.
  [[nodiscard]] bool open_alarm() noexcept;
  void set_alarm() noexcept;
  void clear_alarm() noexcept;

  Domain& introducer_;
  HubOptions options_;
  // In this order: each is made in what stands above it.
  std::unique_ptr<OpenDevice> device_;
  ServedRegions served_;
  Descriptor wake_;
  ibv_comp_channel* events_ = nullptr;
  ibv_cq* completion_queue_ = nullptr;
  std::unique_ptr<ReceivePool> receives_;
  std::unique_ptr<WorkBatch> batch_;
  std::vector<DeviceMemory> spare_memory_;      // Of channels that have ended.
  std::unique_ptr<ConnectionManager> manager_;  // Made when it is first needed.
  std::vector<std::unique_ptr<VerbsChannel>> slots_;

  std::unordered_map<Channel*, Link> links_;  // By the introducer's channel.
  std::unordered_map<uint32_t, VerbsChannel*> by_number_;
  std::vector<VerbsChannel*> active_;  // Have something to give.
  std::vector<VerbsChannel*> to_flush_;
  std::vector<VerbsChannel*> delivered_;
  std::vector<VerbsChannel*> dead_;  // Their last completion was given out in the poll before.
  std::vector<Completion> news_;
  std::vector<std::byte> wire_;
  std::vector<Deferred> deferred_;
  std::vector<Deferred> given_;  // Their bytes were handed out in the last poll.
  std::vector<int> wake_descriptors_;
  Descriptor alarm_;  // A timer.
  bool is_alarm_set_ = false;
  Report last_refusal_{Code::kOk, {}, {}};
  Report why_lost_{Code::kOk, {}, {}};
  uint64_t next_attempt_ns_ = 0;       // To open a device that was lost.
  Report not_yet_{Code::kOk, {}, {}};  // For a caller that gives up waiting for an introduction before we do.
  size_t strangers_ = 0;
  size_t passed_on_ = 0;    // The introducer's channels that are none of our business.
  size_t introducing_ = 0;  // Links with something due.
  size_t first_ = 0;
  uint32_t generation_ = 0;
  uint32_t polls_until_news_ = 0;
  uint32_t polls_until_events_ = 0;
  bool device_lost_ = false;
};

}  // namespace refract::fabric::verbs
