// SPDX-License-Identifier: Apache-2.0
#include "tests/verbs/rdma_cm.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>

#include <cstring>

#include "refract/base/check.h"
#include "refract/base/testing/needed.h"

namespace refract::test {
namespace {

constexpr int kResolve_ms = 10'000;

// The address in the form that librdmacm needs, IPv6 where there is a colon.
class SocketAddress {
 public:
  SocketAddress(const std::string& text, uint16_t port) {
    if (text.find(':') == std::string::npos) {
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_port = ::htons(port);
      REFRACT_CHECK(::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1);
      std::memcpy(&storage_, &four, sizeof(four));
    } else {
      sockaddr_in6 six{};
      six.sin6_family = AF_INET6;
      six.sin6_port = ::htons(port);
      REFRACT_CHECK(::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1);
      std::memcpy(&storage_, &six, sizeof(six));
    }
  }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }

 private:
  sockaddr_storage storage_{};
};

rdma_conn_param parameters(const Endpoint& endpoint) {
  rdma_conn_param parameters{};
  parameters.qp_num = endpoint.queue_pair_number();
  parameters.responder_resources = 4;
  parameters.initiator_depth = 4;
  parameters.retry_count = 6;
  parameters.rnr_retry_count = 7;
  return parameters;
}

}  // namespace

CmEnd::CmEnd()
    : cm_(*needed(fabric::verbs::cm_library())),
      verbs_(*needed(fabric::verbs::verbs_library())),
      events_(cm_.create_event_channel()) {
  REFRACT_CHECK(events_ != nullptr);
}

CmEnd::~CmEnd() {
  // Without an exchange of farewells: nothing is in flight, and the peer goes with the same test.
  endpoint_.reset();
  for (rdma_cm_id* id : {id_, listener_}) {
    if (id != nullptr) REFRACT_CHECK(cm_.destroy_id(id) == 0);
  }
  cm_.destroy_event_channel(events_);
}

uint16_t CmEnd::listen(const std::string& address) {
  REFRACT_CHECK(cm_.create_id(events_, &listener_, nullptr, RDMA_PS_TCP) == 0);
  SocketAddress here(address, 0);
  REFRACT_CHECK(cm_.bind_addr(listener_, here.get()) == 0);
  REFRACT_CHECK(cm_.listen(listener_, 1) == 0);
  return ::ntohs(cm_.get_src_port(listener_));
}

void CmEnd::begin_connecting(const std::string& source, const std::string& target, uint16_t port,
                             std::span<const std::byte> private_data) {
  REFRACT_CHECK(cm_.create_id(events_, &id_, nullptr, RDMA_PS_TCP) == 0);
  SocketAddress here(source, 0);
  SocketAddress there(target, port);
  REFRACT_CHECK(cm_.resolve_addr(id_, here.get(), there.get(), kResolve_ms) == 0);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  REFRACT_CHECK(cm_.resolve_route(id_, kResolve_ms) == 0);
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_endpoint();
  rdma_conn_param wanted = parameters(*endpoint_);
  wanted.private_data = private_data.data();
  wanted.private_data_len = static_cast<uint8_t>(private_data.size());
  REFRACT_CHECK(cm_.connect(id_, &wanted) == 0);
}

bool CmEnd::has_news() const {
  pollfd waiting{.fd = events_->fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 1;
}

void CmEnd::expect_rejection() {
  expect(RDMA_CM_EVENT_REJECTED);
}

void CmEnd::accept() {
  id_ = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  make_endpoint();
  change_state(IBV_QPS_RTR);
  change_state(IBV_QPS_RTS);
  rdma_conn_param wanted = parameters(*endpoint_);
  REFRACT_CHECK(cm_.accept(id_, &wanted) == 0);
}

void CmEnd::finish_connecting() {
  expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  change_state(IBV_QPS_RTR);
  change_state(IBV_QPS_RTS);
  REFRACT_CHECK(cm_.establish(id_) == 0);
}

void CmEnd::finish_accepting() {
  expect(RDMA_CM_EVENT_ESTABLISHED);
}

rdma_cm_id* CmEnd::expect(rdma_cm_event_type kind) {
  rdma_cm_event* event = nullptr;
  REFRACT_CHECK(cm_.get_cm_event(events_, &event) == 0);
  if (event->event != kind) {
    fmt::print(stderr, "rdma_cm: {} in place of {}, status {}\n", cm_.event_str(event->event),
               cm_.event_str(kind), event->status);
  }
  REFRACT_CHECK(event->event == kind);
  rdma_cm_id* id = event->id;
  REFRACT_CHECK(cm_.ack_cm_event(event) == 0);
  return id;
}

void CmEnd::make_endpoint() {
  endpoint_ = std::make_unique<Endpoint>(verbs_, id_->verbs);
  change_state(IBV_QPS_INIT);
}

// librdmacm knows the attributes of each state; the queue pair is not one that it has made.
void CmEnd::change_state(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  REFRACT_CHECK(cm_.init_qp_attr(id_, &attributes, &mask) == 0);
  REFRACT_CHECK(verbs_.modify_qp(endpoint_->queue_pair(), &attributes, mask) == 0);
}

}  // namespace refract::test
