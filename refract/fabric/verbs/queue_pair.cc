// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "refract/base/prng.h"
#include "refract/fabric/verbs/library.h"
#include "refract/fabric/verbs/trouble.h"
#include "refract/fabric/verbs/tuning.h"

namespace refract::fabric::verbs {
namespace {

ibv_mtu mtu_of(uint32_t bytes) noexcept {
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}

Report why_not_made(const OpenDevice& device, int error) {
  return explain({.step = Step::kQueuePair,
                  .error = error,
                  .what = fmt::format("{} cannot make a queue pair", device.facts().name)});
}

Report why_no_path(const OpenDevice& device, Step step, const std::string& to, int error) {
  return explain({.step = step,
                  .error = error,
                  .what = fmt::format("{} finds no path from {} to {}", device.facts().name,
                                      device.choice().gid.to_string(), to)});
}

}  // namespace

Reported<std::unique_ptr<QueuePair>> QueuePair::make(const OpenDevice& device, const Queues& queues,
                                                     const GidFacts& gid) {
  std::unique_ptr<QueuePair> made(new QueuePair(device, gid));
  for (const uint32_t inline_bytes : {kInlineBytes, uint32_t{64}, uint32_t{0}}) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = queues.completions;
    attributes.recv_cq = queues.completions;
    attributes.srq = queues.receives;
    attributes.cap.max_send_wr = kSendQueue;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_inline_data = inline_bytes;
    attributes.qp_type = IBV_QPT_RC;
    made->pair_ = device.calls().create_qp(device.pd(), &attributes);
    if (made->pair_ != nullptr) {
      made->inline_bytes_ = attributes.cap.max_inline_data;
      break;
    }
    // Too many bytes inline is said like this, as is all else that does not fit.
    if (errno != EINVAL && errno != ENOMEM) break;
  }
  if (made->pair_ == nullptr) return report(why_not_made(device, errno));
  if (auto done = made->initialise(); !done) return report(done.error());
  return made;
}

QueuePair::~QueuePair() {
  if (pair_ != nullptr) (void)device_.calls().destroy_qp(pair_);
}

uint32_t QueuePair::number() const noexcept {
  return pair_->qp_num;
}

Reported<> QueuePair::initialise() {
  packet_sequence_ = static_cast<uint32_t>(secure_random_u64() & 0xff'ffff);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = 0;
  attributes.port_num = device_.choice().port;
  // What the peer may do is said by each registration.
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const int error = device_.calls().modify_qp(
      pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return report(why_not_made(device_, error));
  return {};
}

Introduction QueuePair::introduction(Kind kind) const noexcept {
  const DeviceLimits& limits = device_.facts().limits;
  return {.header = header_of(kind),
          .queue_pair = number(),
          .packet_sequence = packet_sequence_,
          .gid = gid_.gid,
          .lid = device_.choice().lid,
          .gid_kind = static_cast<uint8_t>(gid_.kind),
          .link_layer = static_cast<uint8_t>(device_.choice().link_layer),
          .mtu_bytes = device_.choice().mtu_bytes,
          .reads_in_max = limits.reads_in_max,
          .reads_out_max = limits.reads_out_max,
          .credits = kCredits,
          .message_bytes_max = kMessageBytesMax,
          .way = Way::kExchange,
          .port = 0,
          .token = 0};
}

Reported<> QueuePair::meet(const Introduction& peer) {
  const DeviceLimits& limits = device_.facts().limits;
  const std::string to = GidFacts{.gid = peer.gid, .interface = {}}.to_string();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(std::min(peer.mtu_bytes, device_.choice().mtu_bytes));
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.packet_sequence;
  attributes.max_dest_rd_atomic = static_cast<uint8_t>(std::min(limits.reads_in_max, peer.reads_out_max));
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  attributes.ah_attr.port_num = device_.choice().port;
  attributes.ah_attr.dlid = peer.lid;
  if (device_.choice().link_layer == LinkLayer::kEthernet) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_.index);
    attributes.ah_attr.grh.hop_limit = kHopLimit;
    std::copy(peer.gid.begin(), peer.gid.end(), attributes.ah_attr.grh.dgid.raw);
  }
  int error = device_.calls().modify_qp(pair_, &attributes,
                                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) return report(why_no_path(device_, Step::kReadyToReceive, to, error));
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = packet_sequence_;
  attributes.timeout = kTimeoutExponent;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kReceiverNotReadyRetries;
  attributes.max_rd_atomic = static_cast<uint8_t>(std::min(limits.reads_out_max, peer.reads_in_max));
  error = device_.calls().modify_qp(pair_, &attributes,
                                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                        IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) return report(why_no_path(device_, Step::kReadyToSend, to, error));
  return {};
}

}  // namespace refract::fabric::verbs
