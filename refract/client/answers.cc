// SPDX-License-Identifier: Apache-2.0
#include "refract/client/answers.h"

namespace refract::client {

Code scan_directly(Connection::Reader& reader, uint64_t cursor, size_t keys_min, ScanPage& page) {
  page.entries.clear();
  const auto read = reader.scan(
      cursor, keys_min, [&](std::span<const std::byte> key, uint64_t version, uint64_t value_bytes) {
        page.entries.push_back({std::string(Bytes(key).text()), version, value_bytes});
      });
  page.next = read.next;
  return read.code;
}

NodeStat stat_of(const kv::wire::StatReply& reply) {
  NodeStat stat{.uptime_ns = reply.uptime_ns,
                .connections = reply.connections,
                .entries = reply.entries,
                .expiring_entries = reply.expiring_entries,
                .expired = reply.expired,
                .buckets = reply.buckets,
                .overflow_lines = reply.overflow_lines,
                .splits = reply.splits,
                .bytes_total = reply.bytes_total,
                .bytes_free = reply.bytes_free,
                .bytes_live = reply.bytes_live,
                .bytes_retired = reply.bytes_retired,
                .buffers_live = reply.buffers_live,
                .writes = reply.stamps_given,
                .calls = {}};
  for (uint16_t method = 1; method < kv::wire::kMethods; ++method) {
    const std::string_view name = kv::wire::name(static_cast<kv::wire::Method>(method));
    stat.calls.emplace_back(name, reply.ops[method]);
  }
  return stat;
}

}  // namespace refract::client
