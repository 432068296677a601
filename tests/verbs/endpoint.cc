// SPDX-License-Identifier: Apache-2.0
#include "tests/verbs/endpoint.h"

#include <algorithm>
#include <bit>

#include "refract/base/check.h"

namespace refract::test {
namespace {

constexpr int kRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

ibv_mtu mtu_of(uint32_t bytes) {
  // 256 is 1, 512 is 2, and so on to 4096.
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}

}  // namespace

Endpoint::Endpoint(const fabric::verbs::VerbsLibrary& library, ibv_context* context)
    : library_(library),
      pd_(library.alloc_pd(context)),
      cq_(library.create_cq(context, int{2 * kDepth}, nullptr, nullptr, 0)),
      buffer_(kBufferBytes) {
  REFRACT_CHECK(pd_ != nullptr && cq_ != nullptr);
  mr_ = library.reg_mr(pd_, buffer_.data(), buffer_.size(), kRights);
  REFRACT_CHECK(mr_ != nullptr);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq_;
  attributes.recv_cq = cq_;
  attributes.cap = {.max_send_wr = kDepth,
                    .max_recv_wr = kDepth,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  qp_ = library.create_qp(pd_, &attributes);
  REFRACT_CHECK(qp_ != nullptr);
}

Endpoint::~Endpoint() {
  REFRACT_CHECK(library_.destroy_qp(qp_) == 0);
  REFRACT_CHECK(library_.dereg_mr(mr_) == 0);
  REFRACT_CHECK(library_.destroy_cq(cq_) == 0);
  REFRACT_CHECK(library_.dealloc_pd(pd_) == 0);
}

void Endpoint::connect(const Endpoint& peer, const fabric::verbs::GidFacts& peer_gid,
                       const fabric::verbs::DeviceChoice& self) {
  connect({.queue_pair = peer.queue_pair_number(), .packet = kFirstPacket, .gid = peer_gid.gid}, self);
}

void Endpoint::connect(const Peer& peer, const fabric::verbs::DeviceChoice& self) {
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_INIT;
  reset.port_num = self.port;
  reset.qp_access_flags = kRights;
  REFRACT_CHECK(library_.modify_qp(
                    qp_, &reset, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);

  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = mtu_of(self.mtu_bytes);
  receive.dest_qp_num = peer.queue_pair;
  receive.rq_psn = peer.packet;
  receive.max_dest_rd_atomic = 4;
  receive.min_rnr_timer = 12;
  receive.ah_attr.is_global = 1;
  receive.ah_attr.port_num = self.port;
  receive.ah_attr.grh.sgid_index = static_cast<uint8_t>(self.gid.index);
  receive.ah_attr.grh.hop_limit = 64;
  std::ranges::copy(peer.gid, receive.ah_attr.grh.dgid.raw);
  REFRACT_CHECK(library_.modify_qp(qp_, &receive,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
                0);

  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.sq_psn = kFirstPacket;
  // 4.096 us * 2^17, half a second, seven times: the emulated processor may be busy elsewhere for much of
  // that. And not one retry more: Soft-RoCE takes the largest number that the field holds for "without end".
  send.timeout = 17;
  send.retry_cnt = 6;
  send.rnr_retry = 7;
  send.max_rd_atomic = 4;
  REFRACT_CHECK(library_.modify_qp(qp_, &send,
                                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

uint64_t Endpoint::address_of(size_t offset) const noexcept {
  return std::bit_cast<uint64_t>(buffer_.data()) + offset;
}

void Endpoint::post_receive(size_t offset, uint32_t bytes) {
  ibv_sge piece{.addr = address_of(offset), .length = bytes, .lkey = mr_->lkey};
  ibv_recv_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  REFRACT_CHECK(ibv_post_recv(qp_, &request, &refused) == 0);
}

void Endpoint::post(ibv_send_wr request, size_t offset, uint32_t bytes) {
  ibv_sge piece{.addr = address_of(offset), .length = bytes, .lkey = mr_->lkey};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  REFRACT_CHECK(ibv_post_send(qp_, &request, &refused) == 0);
}

ibv_wc Endpoint::next_completion() {
  ibv_wc completion{};
  while (!poll(completion)) {
  }
  return completion;
}

bool Endpoint::poll(ibv_wc& completion) {
  const int count = ibv_poll_cq(cq_, 1, &completion);
  REFRACT_CHECK(count >= 0);
  return count == 1;
}

}  // namespace refract::test
