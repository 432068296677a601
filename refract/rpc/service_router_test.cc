// SPDX-License-Identifier: Apache-2.0
// Which service sees which calls, in which order and in which batches.
#include "refract/rpc/service_router.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace refract::rpc {
namespace {

class NotingService final : public Service {
 public:
  NotingService(std::string& notes, char name) : notes_(notes), name_(name) {}
  void handle(std::span<const IncomingCall> calls) noexcept override {
    notes_ += name_;
    for (const IncomingCall& call : calls) notes_ += std::to_string(call.header.method) + ",";
  }
  void session_opened(SessionId /*session*/) noexcept override { notes_ += std::string{name_, '+'}; }
  void session_closed(SessionId /*session*/) noexcept override { notes_ += std::string{name_, '-'}; }

 private:
  std::string& notes_;
  char name_;
};

std::vector<IncomingCall> calls_of(std::initializer_list<uint16_t> methods) {
  std::vector<IncomingCall> calls;
  for (const uint16_t method : methods)
    calls.push_back({.from = {}, .header = {0, method, 0, 0}, .payload = {}});
  return calls;
}

TEST(ServiceRouter, calls_reach_their_service_in_order_and_in_whole_batches) {
  std::string notes;
  NotingService first(notes, 'a');
  NotingService second(notes, 'b');
  ServiceRouter router(first, 0x100, second);
  router.handle(calls_of({1, 2, 0xff}));
  router.handle(calls_of({0x100, 0xffff}));
  router.handle(calls_of({3, 0x100, 0x101, 4, 5}));
  router.handle({});
  EXPECT_EQ(notes, "a1,2,255,b256,65535,a3,b256,257,a4,5,");
}

TEST(ServiceRouter, both_services_hear_of_every_session) {
  std::string notes;
  NotingService first(notes, 'a');
  NotingService second(notes, 'b');
  ServiceRouter router(first, 0x100, second);
  router.session_opened({1});
  router.session_closed({1});
  EXPECT_EQ(notes, "a+b+a-b-");
}

}  // namespace
}  // namespace refract::rpc
