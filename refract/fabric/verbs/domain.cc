// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/domain.h"

#include <algorithm>
#include <utility>

#include "refract/fabric/verbs/hub.h"
#include "refract/fabric/verbs/tuning.h"

namespace refract::fabric::verbs {
namespace {

Reported<std::unique_ptr<Hub>> make_hub(Domain& introducer, const Options& options, bool accepted) {
  const uint32_t usual = accepted ? kServerChannelsMax : kClientChannelsMax;
  return Hub::make(introducer, {.accepted = accepted,
                                .device = options.device,
                                .channels_max = options.channels_max == 0 ? usual : options.channels_max,
                                .chunk_bytes_max = options.chunk_bytes_max,
                                .completions_max = options.completions_max,
                                .connect_by = options.connect_by});
}

}  // namespace

VerbsDomain::VerbsDomain(std::unique_ptr<Hub> hub) noexcept : hub_(std::move(hub)) {}
VerbsDomain::~VerbsDomain() = default;

Reported<> VerbsDomain::serve_region(const RegionSpec& spec, RemoteKey key) {
  return hub_->serve(spec, key);
}
void VerbsDomain::revoke_served(uint16_t region) noexcept {
  hub_->revoke(region);
}
const DomainCounters& VerbsDomain::counters() const noexcept {
  return hub_->counters;
}
const DeviceChoice& VerbsDomain::device() const noexcept {
  return hub_->device().choice();
}
const Channel* VerbsDomain::introducer_of(const Channel& channel) const noexcept {
  return hub_->introducer_of(channel);
}
PathFacts VerbsDomain::path_of(const Channel& channel) const {
  const Introduction* const peer = hub_->peer_of(channel);
  if (peer == nullptr) return {};
  return {.peer = GidFacts{.gid = peer->gid, .interface = {}}.to_string(),
          .mtu_bytes = std::min(peer->mtu_bytes, device().mtu_bytes)};
}

const Report& VerbsDomain::last_refusal() const noexcept {
  return hub_->last_refusal();
}
uint32_t VerbsDomain::channels_max() const noexcept {
  return hub_->channels_max();
}

size_t VerbsDomain::poll(std::span<Completion> completions) noexcept {
  return hub_->poll(completions);
}
void VerbsDomain::flush() noexcept {
  hub_->flush();
}

Reported<RemoteKey> VerbsDomain::register_region(const RegionSpec& spec) {
  auto key = hub_->introducer().register_region(spec);
  if (!key) return key;
  if (auto served = hub_->serve(spec, *key); !served) {
    (void)hub_->introducer().revoke_region(spec.region);
    return report(served.error());
  }
  return key;
}

uint64_t VerbsDomain::revoke_region(uint16_t region) noexcept {
  hub_->revoke(region);
  return hub_->introducer().revoke_region(region);
}

bool VerbsDomain::prepare_sleep() noexcept {
  return hub_->prepare_sleep();
}
void VerbsDomain::woke() noexcept {
  hub_->woke();
}
std::span<const int> VerbsDomain::wake_descriptors() const noexcept {
  return hub_->wake_descriptors();
}

Reported<std::unique_ptr<ServerDomain>> ServerDomain::create(Domain& introducer, const Options& options) {
  auto hub = make_hub(introducer, options, /*accepted=*/true);
  if (!hub) return report(hub.error());
  return std::unique_ptr<ServerDomain>(new ServerDomain(std::move(*hub)));
}
Reported<Channel*> ServerDomain::connect(std::string_view) {
  return report(Code::kUnsupported, "a server's RDMA domain accepts, it does not connect",
                "use a ClientDomain");
}

Reported<std::unique_ptr<ClientDomain>> ClientDomain::create(Domain& introducer, const Options& options) {
  auto hub = make_hub(introducer, options, /*accepted=*/false);
  if (!hub) return report(hub.error());
  return std::unique_ptr<ClientDomain>(new ClientDomain(std::move(*hub)));
}
Reported<Channel*> ClientDomain::connect(std::string_view address) {
  return hub().connect(address);
}

}  // namespace refract::fabric::verbs
