// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/path_teller.h"

#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"

namespace refract::object {

using kv::wire::take;

namespace {

static_assert(wire::kPathSizes == PathMemory::kSizes);

[[nodiscard]] wire::PathEntry entry_of(const std::string& name, const PathMemory& path) {
  wire::PathEntry entry{.round_trip_ns = path.round_trip_ns(),
                        .bytes_per_s = path.bytes_per_s(),
                        .switch_bytes = path.switch_bytes().value_or(UINT64_MAX),
                        .message_ns = {},
                        .read_ns = {},
                        .name_bytes = static_cast<uint16_t>(name.size()),
                        .reserved = {}};
  bool is_known = false;
  for (size_t i = 0; i < wire::kPathSizes; ++i) {
    const PathMemory::Size& size = path.sizes()[i];
    entry.message_ns[i] = size.by[0].ns;
    entry.read_ns[i] = size.by[1].ns;
    is_known |= size.by[0].ns != 0 && size.by[1].ns != 0;
  }
  if (!is_known) entry.switch_bytes = 0;
  return entry;
}

}  // namespace

void PathTeller::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  if (server_ == nullptr) return;
  for (const rpc::IncomingCall& call : calls) {
    if (call.header.method == static_cast<uint16_t>(wire::PathMethod::kPaths)) {
      tell(call.from, call.payload);
    } else {
      server_->reply(call.from, Code::kUnsupported);
    }
  }
}

void PathTeller::tell(const rpc::Responder& to, std::span<const std::byte> body) {
  const auto request = take<wire::PathsRequest>(body);
  if (!request || !body.empty() || request->reserved != 0) return server_->reply(to, Code::kMalformed);
  const NamedPaths paths = source_.paths();
  wire::PathsReply reply{.count = 0, .next = 0};
  const size_t room = server_->payload_bytes_max(to.session);
  std::vector<std::byte> entries;
  for (size_t i = request->first; i < paths.size(); ++i) {
    const auto& [name, path] = paths[i];
    if (sizeof(reply) + entries.size() + sizeof(wire::PathEntry) + name.size() > room) {
      reply.next = static_cast<uint32_t>(i);
      break;
    }
    const wire::PathEntry entry = entry_of(name, *path);
    for (const auto part : {bytes_of(entry), std::as_bytes(std::span(name))}) {
      entries.insert(entries.end(), part.begin(), part.end());
    }
    ++reply.count;
  }
  server_->reply(to, Code::kOk, bytes_of(reply), entries);
}

}  // namespace refract::object
