// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/remote_server.h"

#include <algorithm>

#include "refract/base/check.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv {

RemoteServer::~RemoteServer() {
  for (const wire::RegionEntry& region : regions_) {
    if (region.bytes > 0) domain_.revoke_region(RemotePointer{region.address}.region());
  }
}

Reported<> RemoteServer::add(const Region& region) {
  REFRACT_CHECK(regions_.size() < wire::kRegionsMax);
  const auto id = static_cast<uint16_t>(kFirstRegion + regions_.size());
  const Reported<RemoteKey> key = domain_.register_region(
      {.region = id, .base = region.bytes.data(), .bytes = region.bytes.size(), .rights = {.read = true}});
  regions_.push_back({.start = region.start.value,
                      .bytes = key ? region.bytes.size() : 0,
                      .address = RemotePointer::at(id, 0).bits,
                      .key = key ? key->bits : 0});
  if (!key) return report(key.error());
  return {};
}

void RemoteServer::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) {
    if (server_ != nullptr) tell(call);
  }
}

void RemoteServer::tell(const rpc::IncomingCall& call) noexcept {
  const fabric::Capabilities* can = server_->capabilities(call.from.session);
  const bool is_ours = call.header.method == wire::kRegionsMethod;
  if (!is_ours || can == nullptr || !can->read_bypasses_target_cpu) {
    return server_->reply(call.from, Code::kUnsupported);
  }
  std::span<const std::byte> body = call.payload;
  const auto request = wire::take<wire::RegionsRequest>(body);
  if (!request || !body.empty()) return server_->reply(call.from, Code::kMalformed);
  const uint64_t first = std::min<uint64_t>(request->first, regions_.size());
  const wire::RegionsReply reply{
      .wall_ns = clock_.wall_ns(), .regions = static_cast<uint32_t>(regions_.size()), .reserved = 0};
  const size_t room = server_->payload_bytes_max(call.from.session) - sizeof(reply);
  const size_t count = std::min(regions_.size() - first, room / sizeof(wire::RegionEntry));
  server_->reply(call.from, Code::kOk, std::as_bytes(std::span(&reply, 1)),
                 std::as_bytes(std::span(regions_).subspan(first, count)));
}

}  // namespace refract::kv
