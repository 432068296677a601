// SPDX-License-Identifier: Apache-2.0
// libibverbs and librdmacm, opened when first asked for, so that a program that has this provider starts on a
// host without them.
//
// The headers are needed to build, the libraries are not linked: every call goes through these tables. Of
// what <infiniband/verbs.h> defines inline, that which ends in the device's own functions (ibv_post_send,
// ibv_poll_cq, ibv_post_srq_recv, ibv_req_notify_cq) is called as it is; that which names a symbol of the
// library (ibv_query_port, ibv_reg_mr, ibv_get_device_list, ibv_query_gid_ex) has its wrapper here.
//
// Threads: any; opened once in a process, never closed.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "refract/base/report.h"

namespace refract::fabric::verbs {

// Members are the library's functions without their prefix; those called raw are wrapped below.
struct VerbsLibrary {
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_srq) create_srq;
  decltype(&::ibv_destroy_srq) destroy_srq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_wc_status_str) wc_status_str;
  decltype(&::ibv_event_type_str) event_type_str;

  decltype(&::ibv_get_device_list) raw_get_device_list;
  decltype(&::_ibv_query_gid_ex) raw_query_gid_ex;
  int (*raw_query_port)(ibv_context*, uint8_t, _compat_ibv_port_attr*);
  ibv_mr* (*raw_reg_mr)(ibv_pd*, void*, size_t, int);
  ibv_mr* (*raw_reg_mr_iova)(ibv_pd*, void*, size_t, uint64_t, int);

  [[nodiscard]] ibv_device** get_device_list(int* count) const noexcept { return raw_get_device_list(count); }
  // Both return 0 or an errno value.
  [[nodiscard]] int query_port(ibv_context* context, uint8_t port, ibv_port_attr& attributes) const noexcept;
  [[nodiscard]] int query_gid(ibv_context* context, uint8_t port, uint32_t index,
                              ibv_gid_entry& entry) const noexcept;
  [[nodiscard]] ibv_mr* reg_mr(ibv_pd* pd, void* base, size_t bytes, int access) const noexcept {
    return raw_reg_mr(pd, base, bytes, access);
  }
  [[nodiscard]] ibv_mr* reg_mr_iova(ibv_pd* pd, void* base, size_t bytes, uint64_t iova,
                                    int access) const noexcept {
    return raw_reg_mr_iova(pd, base, bytes, iova, access);
  }
};

struct CmLibrary {
  decltype(&::rdma_create_event_channel) create_event_channel;
  decltype(&::rdma_destroy_event_channel) destroy_event_channel;
  decltype(&::rdma_create_id) create_id;
  decltype(&::rdma_destroy_id) destroy_id;
  decltype(&::rdma_bind_addr) bind_addr;
  decltype(&::rdma_listen) listen;
  decltype(&::rdma_resolve_addr) resolve_addr;
  decltype(&::rdma_resolve_route) resolve_route;
  decltype(&::rdma_connect) connect;
  decltype(&::rdma_establish) establish;
  decltype(&::rdma_accept) accept;
  decltype(&::rdma_reject) reject;
  decltype(&::rdma_disconnect) disconnect;
  decltype(&::rdma_init_qp_attr) init_qp_attr;
  decltype(&::rdma_get_cm_event) get_cm_event;
  decltype(&::rdma_ack_cm_event) ack_cm_event;
  decltype(&::rdma_event_str) event_str;
  decltype(&::rdma_get_src_port) get_src_port;
};

// kUnsupported, with the package that is missing. The pointer is good until the process ends.
[[nodiscard]] Reported<const VerbsLibrary*> verbs_library();
[[nodiscard]] Reported<const CmLibrary*> cm_library();

}  // namespace refract::fabric::verbs
