// SPDX-License-Identifier: Apache-2.0
#include "refract/client/answers.h"

#include <algorithm>

#include "refract/memory/host/large_pages.h"

namespace refract::client {

std::byte* make_room(std::string& target, uint64_t bytes) {
  return StringRoom{&target}(bytes);
}

std::byte* StringRoom::long_room(std::string& target, uint64_t bytes) {
  // What was in it is not carried over.
  target = std::string();
  target.resize_and_overwrite(bytes, [bytes](char* room, size_t) noexcept {
    wish_for_large_pages(room, bytes);
    return bytes;
  });
  return reinterpret_cast<std::byte*>(target.data());
}

void Write::identify(Peers& peers, const RequestId& request) {
  RequestId identity = request;
  is_programs_ = request.client != 0;
  if (!is_programs_) {
    identity = peers.new_request();
  } else {
    attempt_.first_sent_ns = identity.sent_before
                                 ? kv::RpcAttempt::kLongAgo_ns
                                 : peers.settings().unresolved_writes->first_sent_ns(identity);
  }
  attempt_.request = {.client = identity.client, .sequence = identity.sequence};
  // What is measured from must not lie long before it was sent.
  (void)peers.shard().refresh_now();
}

void Write::note(Code code, uint64_t begun_ns) noexcept {
  if (code == Code::kIndeterminate && attempt_.first_sent_ns == 0) attempt_.first_sent_ns = begun_ns;
}

void Write::end(Peers& peers, Code code) const {
  if (!is_programs_) return;
  const RequestId identity{.client = attempt_.request.client, .sequence = attempt_.request.sequence};
  if (code == Code::kIndeterminate) {
    peers.settings().unresolved_writes->remember(identity, attempt_.first_sent_ns);
  } else if (code != Code::kUnavailable && code != Code::kDeadlineExceeded && code != Code::kOverloaded) {
    peers.settings().unresolved_writes->settle(identity);
  }
}

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
                .evicted = reply.evicted,
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

void add_to(NodeStat& sum, const NodeStat& part) {
  sum.uptime_ns = std::max(sum.uptime_ns, part.uptime_ns);
  sum.connections += part.connections;
  sum.entries += part.entries;
  sum.expiring_entries += part.expiring_entries;
  sum.expired += part.expired;
  sum.evicted += part.evicted;
  sum.buckets += part.buckets;
  sum.overflow_lines += part.overflow_lines;
  sum.splits += part.splits;
  sum.bytes_total += part.bytes_total;
  sum.bytes_free += part.bytes_free;
  sum.bytes_live += part.bytes_live;
  sum.bytes_retired += part.bytes_retired;
  sum.buffers_live += part.buffers_live;
  sum.writes += part.writes;
  if (sum.calls.empty()) {
    sum.calls = part.calls;
  } else {
    // All shards run one version: their lists are alike.
    for (size_t i = 0; i < sum.calls.size() && i < part.calls.size(); ++i) {
      sum.calls[i].second += part.calls[i].second;
    }
  }
}

}  // namespace refract::client
