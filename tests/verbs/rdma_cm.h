// SPDX-License-Identifier: Apache-2.0
// Connects two endpoints by librdmacm's calls: one listens at an address, the other resolves and connects to
// it.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tests/verbs/endpoint.h"

namespace refract::test {

// An identifier of librdmacm with its own channel of events, and the endpoint that it brings about.
class CmEnd {
 public:
  CmEnd();
  CmEnd(const CmEnd&) = delete;
  CmEnd& operator=(const CmEnd&) = delete;
  ~CmEnd();

  // The port that it got.
  [[nodiscard]] uint16_t listen(const std::string& address);
  // From `source`, so that the connection leaves through the device that has this address.
  void begin_connecting(const std::string& source, const std::string& target, uint16_t port,
                        std::span<const std::byte> private_data = {});
  // Whether what comes next would not have to be waited for.
  [[nodiscard]] bool has_news() const;
  // The other end turns it down.
  void expect_rejection();
  // The listener's part, then the connecting end's, then the listener's again.
  void accept();
  void finish_connecting();
  void finish_accepting();

  [[nodiscard]] Endpoint& endpoint() noexcept { return *endpoint_; }

 private:
  // Waits for the next event, which must be of this kind; the identifier that it is about.
  rdma_cm_id* expect(rdma_cm_event_type kind);
  void make_endpoint();
  void change_state(ibv_qp_state state);

  const fabric::verbs::CmLibrary& cm_;
  const fabric::verbs::VerbsLibrary& verbs_;
  rdma_event_channel* events_;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  std::unique_ptr<Endpoint> endpoint_;
};

}  // namespace refract::test
