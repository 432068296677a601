// SPDX-License-Identifier: Apache-2.0
// Which service sees which calls, in which order and in which batches.
#include "refract/rpc/service_table.h"

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

TEST(ServiceTable, calls_reach_their_service_in_order_and_in_whole_batches) {
  std::string notes;
  NotingService first(notes, 'a');
  NotingService second(notes, 'b');
  NotingService third(notes, 'c');
  ServiceTable table({{0, &first}, {0x100, &second}, {0x180, &third}});
  table.handle(calls_of({1, 2, 0xff}));
  table.handle(calls_of({0x100, 0x17f}));
  table.handle(calls_of({0x180, 0xffff}));
  table.handle(calls_of({3, 0x100, 0x101, 4, 5, 0x200, 0x17f}));
  table.handle({});
  EXPECT_EQ(notes, "a1,2,255,b256,383,c384,65535,a3,b256,257,a4,5,c512,b383,");
}

TEST(ServiceTable, one_service_alone_has_every_method) {
  std::string notes;
  NotingService only(notes, 'a');
  ServiceTable table({{0, &only}});
  table.handle(calls_of({0, 0x7fff, 0xffff}));
  EXPECT_EQ(notes, "a0,32767,65535,");
}

TEST(ServiceTable, all_services_hear_of_every_session) {
  std::string notes;
  NotingService first(notes, 'a');
  NotingService second(notes, 'b');
  NotingService third(notes, 'c');
  ServiceTable table({{0, &first}, {0x100, &second}, {0x200, &third}});
  table.session_opened({1});
  table.session_closed({1});
  EXPECT_EQ(notes, "a+b+c+a-b-c-");
}

TEST(ServiceTableDeathTest, rows_that_do_not_ascend_or_leave_methods_out_are_a_bug) {
  std::string notes;
  NotingService first(notes, 'a');
  NotingService second(notes, 'b');
  EXPECT_DEATH(ServiceTable({{1, &first}}), "");
  EXPECT_DEATH(ServiceTable({{0, &first}, {0x100, &first}}), "");
  EXPECT_DEATH(ServiceTable({{0, &first}, {0, &second}}), "");
}

}  // namespace
}  // namespace refract::rpc
