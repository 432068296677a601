// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "refract/client/link/transport.h"
#include "refract/fabric/shm/domain.h"
#include "refract/memory/heap.h"

namespace refract::client {

namespace {

// No node asks for less.
constexpr uint64_t kReadsPerUseMax = 1 << 20;

// The word of the node's page is handed on as it is.
template <ServerState kOurs, fabric::shm::ServerState kPages>
constexpr bool kSame = static_cast<uint64_t>(kOurs) == static_cast<uint64_t>(kPages);
static_assert(kSame<ServerState::kStarting, fabric::shm::ServerState::kStarting> &&
              kSame<ServerState::kServing, fabric::shm::ServerState::kServing> &&
              kSame<ServerState::kRestarting, fabric::shm::ServerState::kRestarting> &&
              kSame<ServerState::kGivenUp, fabric::shm::ServerState::kGivenUp> &&
              kSame<ServerState::kStopping, fabric::shm::ServerState::kStopping>);

std::string_view name_of(ServerState state) noexcept {
  switch (state) {
    case ServerState::kStarting:
      return "starting";
    case ServerState::kServing:
      return "serving";
    case ServerState::kRestarting:
      return "restarting";
    case ServerState::kGivenUp:
      return "given up";
    case ServerState::kStopping:
      return "stopping";
  }
  return "unknown";
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::unique_ptr<fabric::shm::ClientDomain> domain, fabric::Channel& channel)
      : domain_(std::move(domain)), channel_(channel) {}

  [[nodiscard]] std::string_view name() const noexcept override { return shm_row().name; }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *domain_; }
  [[nodiscard]] fabric::Channel& channel() noexcept override { return channel_; }

  void opened() override { page_ = domain_->node_page(channel_); }

  [[nodiscard]] NodeFacts facts() const override {
    NodeFacts facts{.identity = {observe_u64(&page_->identity[0]), observe_u64(&page_->identity[1])},
                    .shard_index = static_cast<uint32_t>(observe_u64(&page_->shard_index)),
                    .shard_count = static_cast<uint32_t>(observe_u64(&page_->shard_count)),
                    .tcp_port = static_cast<uint16_t>(observe_u64(&page_->tcp_port)),
                    .socket_path = {}};
    const fabric::Channel::LocalView view = channel_.local_view();
    if (view.base != nullptr && Heap::check_header({view.base, view.bytes})) {
      facts.hash_seed = observe_u64(view.base + offsetof(SpaceHeader, hash_seed));
      facts.copies = static_cast<uint32_t>(observe_u64(view.base + offsetof(SpaceHeader, copies)));
      facts.placement = observe_u64(view.base + offsetof(SpaceHeader, placement));
      facts.is_spread = facts.placement != 0;
    }
    return facts;
  }
  [[nodiscard]] Signs signs() const noexcept override {
    return {.server_state = &page_->server_state, .incarnation = &page_->incarnation, .are_live = true};
  }
  [[nodiscard]] PinWriter* pins() noexcept override { return &domain_->pins(channel_); }
  [[nodiscard]] WidePins* wide_pins() noexcept override { return &domain_->wide_pins(channel_); }
  [[nodiscard]] UseWriter* uses() noexcept override { return &domain_->uses(channel_); }
  [[nodiscard]] uint64_t reads_per_use() const noexcept override {
    const uint64_t reads = observe_u64(&page_->reads_per_use) & ~fabric::shm::kObjectsAreShared;
    return reads <= kReadsPerUseMax ? reads : 0;
  }

  [[nodiscard]] bool shares_objects() const noexcept override {
    return (observe_u64(&page_->reads_per_use) & fabric::shm::kObjectsAreShared) != 0;
  }

  void look_around() noexcept override {
    // Going to sleep and waking up at once is how a domain is made to look at its sockets.
    (void)domain_->prepare_sleep();
    domain_->woke();
  }
  [[nodiscard]] const Report& last_refusal() const noexcept override { return domain_->last_refusal(); }
  [[nodiscard]] std::string_view advice() const noexcept override {
    return "is its keeper stopped? look with: ps -C refractd -o pid,stat,args";
  }
  void fill(Route& route) const override {
    route.server = name_of(static_cast<ServerState>(fabric::shm::server_state(*page_)));
    route.incarnation = fabric::shm::incarnation(*page_);
    route.server_pid = observe_u64(&page_->server_pid);
    route.mapped_bytes += channel_.local_view().bytes;
    route.regions += domain_->regions(channel_).size();
  }

 private:
  std::unique_ptr<fabric::shm::ClientDomain> domain_;
  fabric::Channel& channel_;
  const fabric::shm::NodePage* page_ = nullptr;
};

Reported<std::unique_ptr<Transport>> begin_shm(const TransportRequest& request) {
  auto domain = fabric::shm::ClientDomain::create({.populate = request.populate});
  if (!domain) return report(std::move(domain).error());
  auto channel = (*domain)->connect(request.address);
  if (!channel) return report(std::move(channel).error());
  return std::make_unique<ShmTransport>(std::move(*domain), **channel);
}

}  // namespace

const TransportRow& shm_row() noexcept {
  static constexpr TransportRow kRow = {
      .name = "shm", .begin = begin_shm, .shard_address = fabric::shm::shard_socket_path};
  return kRow;
}

}  // namespace refract::client
