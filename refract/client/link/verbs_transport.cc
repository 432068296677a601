// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "refract/client/link/tcp_facts.h"
#include "refract/client/link/transport.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/verbs/domain.h"

namespace refract::client {
namespace {

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(std::unique_ptr<fabric::tcp::ClientDomain> introducer,
                 std::unique_ptr<fabric::verbs::ClientDomain> domain, fabric::Channel& channel)
      : introducer_(std::move(introducer)), domain_(std::move(domain)), channel_(channel) {}

  [[nodiscard]] std::string_view name() const noexcept override { return verbs_row().name; }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *domain_; }
  [[nodiscard]] fabric::Channel& channel() noexcept override { return channel_; }

  void opened() override {
    const fabric::Channel* introduced_by = domain_->introducer_of(channel_);
    if (introduced_by == nullptr) return;
    const fabric::tcp::NodeFacts& said = introducer_->facts(*introduced_by);
    facts_ = facts_of(said);
    incarnation_ = said.incarnation;
  }

  [[nodiscard]] NodeFacts facts() const override { return facts_; }
  [[nodiscard]] Signs signs() const noexcept override {
    return {.server_state = &server_state_, .incarnation = &incarnation_, .are_live = false};
  }

  void look_around() noexcept override {
    (void)domain_->prepare_sleep();
    domain_->woke();
  }
  [[nodiscard]] const Report& last_refusal() const noexcept override {
    return domain_->last_refusal().what.empty() ? introducer_->last_refusal() : domain_->last_refusal();
  }
  [[nodiscard]] std::string_view advice() const noexcept override {
    // An introduction that is under way knows what it waits for.
    const Report& not_yet = domain_->last_refusal();
    if (!not_yet.what.empty()) {
      advice_ = fmt::format("{}; {}", not_yet.what, not_yet.next);
      return advice_;
    }
    return "are its host and the RDMA port there up, its server running, and its TCP port open to this host? "
           "refract doctor looks at this host's side";
  }
  void fill(Route& route) const override {
    route.server = channel_.reconnects() ? "unreachable" : "serving";
    route.incarnation = incarnation_;
    const fabric::verbs::DeviceChoice& here = domain_->device();
    const fabric::verbs::PathFacts path = domain_->path_of(channel_);
    route.device =
        fmt::format("{} port {} from {} to {} ({}), MTU {}", here.device, here.port, here.gid.to_string(),
                    path.peer, fabric::verbs::text(here.gid.kind), path.mtu_bytes);
  }

 private:
  std::unique_ptr<fabric::tcp::ClientDomain> introducer_;
  std::unique_ptr<fabric::verbs::ClientDomain> domain_;  // Over it.
  fabric::Channel& channel_;
  mutable std::string advice_;
  NodeFacts facts_;
  uint64_t server_state_ = static_cast<uint64_t>(ServerState::kServing);
  uint64_t incarnation_ = 0;
};

Reported<std::unique_ptr<Transport>> begin_verbs(const TransportRequest& request) {
  auto introducer =
      fabric::tcp::ClientDomain::create({.secret = request.secret, .connect_timeout_ns = request.timeout_ns});
  if (!introducer) return report(std::move(introducer).error());
  // A connection has one channel.
  auto domain = fabric::verbs::ClientDomain::create(
      **introducer, {.device = {.device = request.rdma_device}, .channels_max = 1});
  if (!domain) return report(std::move(domain).error());
  auto channel = (*domain)->connect(request.address);
  if (!channel) return report(std::move(channel).error());
  return std::make_unique<VerbsTransport>(std::move(*introducer), std::move(*domain), **channel);
}

}  // namespace

const TransportRow& verbs_row() noexcept {
  static constexpr TransportRow kRow = {
      .name = "verbs", .begin = begin_verbs, .shard_address = shard_address_at_host};
  return kRow;
}

}  // namespace refract::client
