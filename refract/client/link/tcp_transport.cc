// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "refract/client/link/tcp_facts.h"
#include "refract/client/link/transport.h"
#include "refract/fabric/tcp/domain.h"

namespace refract::client {
namespace {

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::unique_ptr<fabric::tcp::ClientDomain> domain, fabric::Channel& channel)
      : domain_(std::move(domain)), channel_(channel) {}

  [[nodiscard]] std::string_view name() const noexcept override { return tcp_row().name; }
  [[nodiscard]] fabric::Domain& domain() noexcept override { return *domain_; }
  [[nodiscard]] fabric::Channel& channel() noexcept override { return channel_; }

  void opened() override { incarnation_ = domain_->facts(channel_).incarnation; }

  [[nodiscard]] NodeFacts facts() const override { return facts_of(domain_->facts(channel_)); }
  [[nodiscard]] Signs signs() const noexcept override {
    return {.server_state = &server_state_, .incarnation = &incarnation_, .are_live = false};
  }

  void look_around() noexcept override {
    // As for shared memory: a domain that is about to sleep looks at all its sockets.
    (void)domain_->prepare_sleep();
    domain_->woke();
  }
  [[nodiscard]] const Report& last_refusal() const noexcept override { return domain_->last_refusal(); }
  [[nodiscard]] std::string_view advice() const noexcept override {
    return "is its host up, its server running, and its port open to this host?";
  }
  void fill(Route& route) const override {
    route.server = channel_.reconnects() ? "unreachable" : "serving";
    route.incarnation = incarnation_;
  }

 private:
  std::unique_ptr<fabric::tcp::ClientDomain> domain_;
  fabric::Channel& channel_;
  // Nothing but a poll tells about a server at the other end of a socket.
  uint64_t server_state_ = static_cast<uint64_t>(ServerState::kServing);
  uint64_t incarnation_ = 0;
};

Reported<std::unique_ptr<Transport>> begin_tcp(const TransportRequest& request) {
  auto domain =
      fabric::tcp::ClientDomain::create({.secret = request.secret, .connect_timeout_ns = request.timeout_ns});
  if (!domain) return report(std::move(domain).error());
  auto channel = (*domain)->connect(request.address);
  if (!channel) return report(std::move(channel).error());
  return std::make_unique<TcpTransport>(std::move(*domain), **channel);
}

}  // namespace

const TransportRow& tcp_row() noexcept {
  static constexpr TransportRow kRow = {
      .name = "tcp", .begin = begin_tcp, .shard_address = shard_address_at_host};
  return kRow;
}

}  // namespace refract::client
