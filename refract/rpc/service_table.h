// SPDX-License-Identifier: Apache-2.0
// The services behind one server: each call goes to the one whose methods it names.
//
//   rpc::ServiceTable services({{0, &table_service}, {prism::kMethodsBegin, &chains}});
//   rpc::Server server(services, shard);
//
// Calls reach a service in the order they came, in batches as large as the traffic allows; a batch that is
// for one service alone, which is the common one, is handed on whole. The service of the lowest methods is
// looked at first: it is for the busiest.
//
// Threads: used only by the server's shard.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "refract/rpc/server.h"

namespace refract::rpc {

class ServiceTable final : public Service {
 public:
  // A service and its first method. Its methods end where those of the next row begin, the last row's with
  // the highest number, so that every number has a service that answers for it.
  struct Row {
    uint16_t methods_begin;
    Service* service;  // Outlives the table, and stands in one row.
  };
  // REQUIRES: ascending; the first row begins with method 0.
  ServiceTable(std::initializer_list<Row> rows)  // NOLINT(google-explicit-constructor)
      : ServiceTable(std::span(rows.begin(), rows.size())) {}
  explicit ServiceTable(std::span<const Row> rows);

  void handle(std::span<const IncomingCall> calls) noexcept override;
  // All services hear of every session, in the order of the rows.
  void session_opened(SessionId session) noexcept override;
  void session_closed(SessionId session) noexcept override;

 private:
  struct Range {
    uint16_t begin;
    uint16_t last;
    Service* service;

    [[nodiscard]] bool has(const IncomingCall& call) const noexcept {
      return static_cast<uint16_t>(call.header.method - begin) <= static_cast<uint16_t>(last - begin);
    }
  };
  [[nodiscard]] const Range& range_of(const IncomingCall& call) const noexcept;

  std::vector<Range> ranges_;
};

}  // namespace refract::rpc
