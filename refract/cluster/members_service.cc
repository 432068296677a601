// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/members_service.h"

#include "refract/cluster/members_wire.h"
#include "refract/memory/remote_visible.h"

namespace refract::cluster {

void MembersService::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    if (call.header.method == static_cast<uint16_t>(wire::Method::kMembers)) {
      tell(call);
    } else {
      server_->reply(call.from, Code::kUnsupported);
    }
  }
}

void MembersService::tell(const rpc::IncomingCall& call) {
  wire::MembersRequest request;
  if (call.payload.size() != sizeof(request)) return server_->reply(call.from, Code::kMalformed);
  copy_possibly_torn(&request, call.payload.data(), sizeof(request));
  if (request.reserved != 0) return server_->reply(call.from, Code::kMalformed);
  if (request.from >= members_.list().members.size()) {
    return server_->reply(call.from, Code::kInvalidArgument);
  }
  const size_t room = server_->payload_bytes_max(call.from.session);
  if (room < wire::kPageBytesMin) return server_->reply(call.from, Code::kTooLarge);
  server_->reply(call.from, Code::kOk, {}, wire::encode_page(members_, request.from, room));
}

}  // namespace refract::cluster
