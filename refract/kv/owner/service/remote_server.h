// SPDX-License-Identifier: Apache-2.0
// Offers a table's space to one-sided READs: registers its regions in a domain, for reading only, and tells
// clients where they lie. What clients do with that is remote_search.h; the owner takes no part in it.
//
//   RemoteServer remote(domain, clock);
//   rpc::ServiceTable services({{0, &table_service}, {wire::kRemoteMethodsBegin, &remote}});
//   rpc::Server server(services, shard);
//   remote.answer_through(&server);
//   remote.add({.start = {0}, .bytes = space});
//
// A peer that knows a region's key can read all of the table, so it is told only where READs bypass the
// owner's CPU (elsewhere a call is cheaper): to peers of this domain, which admitted them, and to clients
// that map the memory anyway.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/report.h"
#include "refract/fabric/channel.h"
#include "refract/kv/layout/remote_wire.h"
#include "refract/memory/remote_pointer.h"
#include "refract/rpc/server.h"

namespace refract::kv {

class RemoteServer final : public rpc::Service {
 public:
  // Both outlive it. `clock` is the one by which entries expire.
  RemoteServer(fabric::Domain& domain, const Clock& clock) noexcept : domain_(domain), clock_(clock) {}
  RemoteServer(const RemoteServer&) = delete;
  RemoteServer& operator=(const RemoteServer&) = delete;
  // From then on no client reads.
  ~RemoteServer() override;

  // Control path. The next region of the space, behind those there are. Where it cannot be registered, what
  // lies there is read by calls, and the report says why.
  struct Region {
    Offset start;
    std::span<std::byte> bytes;
  };
  [[nodiscard]] Reported<> add(const Region& region);

  // What carries the answers. Before the first session opens; null: sessions have ended.
  void answer_through(rpc::Server* server) noexcept { server_ = server; }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;

 private:
  void tell(const rpc::IncomingCall& call) noexcept;

  // Beside these there are the windows of large values (domain_windows.h), from a number far beyond on.
  static constexpr uint16_t kFirstRegion = 1;

  fabric::Domain& domain_;
  const Clock& clock_;
  rpc::Server* server_ = nullptr;
  std::vector<wire::RegionEntry> regions_;
};

}  // namespace refract::kv
