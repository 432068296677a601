// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace refract::fabric::verbs {
namespace {

// One library, while its functions are looked up.
class Symbols {
 public:
  explicit Symbols(const char* file) noexcept : file_(file), handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) missing_ = last_error();
  }

  template <typename Function>
  void find(Function& function, const char* name) {
    if (handle_ == nullptr) return;
    void* const address = ::dlsym(handle_, name);
    if (address == nullptr && missing_.empty()) missing_ = last_error();
    function = reinterpret_cast<Function>(address);
  }

  [[nodiscard]] Reported<> outcome(const char* package) const {
    if (handle_ != nullptr && missing_.empty()) return {};
    return report(Code::kUnsupported, fmt::format("RDMA needs {}: {}", file_, missing_),
                  fmt::format("install it (Debian: apt-get install {} ibverbs-providers)", package));
  }

 private:
  [[nodiscard]] static std::string last_error() {
    const char* const text = ::dlerror();
    return text == nullptr ? "it cannot be opened" : text;
  }

  const char* file_;
  void* handle_;  // Never closed: the devices' own libraries are not made for that.
  std::string missing_;
};

Reported<VerbsLibrary> load_verbs() {
  VerbsLibrary library{};
  Symbols symbols("libibverbs.so.1");
  symbols.find(library.get_device_name, "ibv_get_device_name");
  symbols.find(library.free_device_list, "ibv_free_device_list");
  symbols.find(library.open_device, "ibv_open_device");
  symbols.find(library.close_device, "ibv_close_device");
  symbols.find(library.get_async_event, "ibv_get_async_event");
  symbols.find(library.ack_async_event, "ibv_ack_async_event");
  symbols.find(library.query_device, "ibv_query_device");
  symbols.find(library.alloc_pd, "ibv_alloc_pd");
  symbols.find(library.dealloc_pd, "ibv_dealloc_pd");
  symbols.find(library.dereg_mr, "ibv_dereg_mr");
  symbols.find(library.create_comp_channel, "ibv_create_comp_channel");
  symbols.find(library.destroy_comp_channel, "ibv_destroy_comp_channel");
  symbols.find(library.create_cq, "ibv_create_cq");
  symbols.find(library.destroy_cq, "ibv_destroy_cq");
  symbols.find(library.get_cq_event, "ibv_get_cq_event");
  symbols.find(library.ack_cq_events, "ibv_ack_cq_events");
  symbols.find(library.create_srq, "ibv_create_srq");
  symbols.find(library.destroy_srq, "ibv_destroy_srq");
  symbols.find(library.create_qp, "ibv_create_qp");
  symbols.find(library.modify_qp, "ibv_modify_qp");
  symbols.find(library.destroy_qp, "ibv_destroy_qp");
  symbols.find(library.wc_status_str, "ibv_wc_status_str");
  symbols.find(library.event_type_str, "ibv_event_type_str");
  symbols.find(library.raw_get_device_list, "ibv_get_device_list");
  symbols.find(library.raw_query_gid_ex, "_ibv_query_gid_ex");
  symbols.find(library.raw_query_port, "ibv_query_port");
  symbols.find(library.raw_reg_mr, "ibv_reg_mr");
  symbols.find(library.raw_reg_mr_iova, "ibv_reg_mr_iova");
  if (auto found = symbols.outcome("libibverbs1"); !found) return report(found.error());
  return library;
}

Reported<CmLibrary> load_cm() {
  CmLibrary library{};
  Symbols symbols("librdmacm.so.1");
  symbols.find(library.create_event_channel, "rdma_create_event_channel");
  symbols.find(library.destroy_event_channel, "rdma_destroy_event_channel");
  symbols.find(library.create_id, "rdma_create_id");
  symbols.find(library.destroy_id, "rdma_destroy_id");
  symbols.find(library.bind_addr, "rdma_bind_addr");
  symbols.find(library.listen, "rdma_listen");
  symbols.find(library.resolve_addr, "rdma_resolve_addr");
  symbols.find(library.resolve_route, "rdma_resolve_route");
  symbols.find(library.connect, "rdma_connect");
  symbols.find(library.establish, "rdma_establish");
  symbols.find(library.accept, "rdma_accept");
  symbols.find(library.reject, "rdma_reject");
  symbols.find(library.disconnect, "rdma_disconnect");
  symbols.find(library.init_qp_attr, "rdma_init_qp_attr");
  symbols.find(library.get_cm_event, "rdma_get_cm_event");
  symbols.find(library.ack_cm_event, "rdma_ack_cm_event");
  symbols.find(library.event_str, "rdma_event_str");
  symbols.find(library.get_src_port, "rdma_get_src_port");
  if (auto found = symbols.outcome("librdmacm1"); !found) return report(found.error());
  return library;
}

}  // namespace

int VerbsLibrary::query_port(ibv_context* context, uint8_t port, ibv_port_attr& attributes) const noexcept {
  std::memset(&attributes, 0, sizeof(attributes));
  // What verbs_get_ctx_op does, which is a macro that only GNU compilers take without a murmur.
  const verbs_context* const extended = verbs_get_ctx(context);
  const size_t needed = sizeof(verbs_context) - offsetof(verbs_context, query_port);
  if (extended != nullptr && extended->sz >= needed && extended->query_port != nullptr) {
    return extended->query_port(context, port, &attributes, sizeof(attributes));
  }
  return raw_query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
}

int VerbsLibrary::query_gid(ibv_context* context, uint8_t port, uint32_t index,
                            ibv_gid_entry& entry) const noexcept {
  std::memset(&entry, 0, sizeof(entry));
  return raw_query_gid_ex(context, port, index, &entry, 0, sizeof(entry));
}

Reported<const VerbsLibrary*> verbs_library() {
  static const Reported<VerbsLibrary> library = load_verbs();
  if (!library) return report(library.error());
  return &*library;
}

Reported<const CmLibrary*> cm_library() {
  static const Reported<CmLibrary> library = load_cm();
  if (!library) return report(library.error());
  return &*library;
}

}  // namespace refract::fabric::verbs
