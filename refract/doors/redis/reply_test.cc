// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/reply.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "refract/doors/messages/handlers.h"
#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {
namespace {

TEST(Reply, each_protocol_has_its_own_bytes) {
  const auto written = [](Protocol protocol) {
    Replies out;
    Reply reply(out, protocol);
    reply.ok();
    reply.number(INT64_MIN);
    reply.bulk(std::string("a\r\n\0", 4));
    reply.null();
    reply.null_array();
    reply.array(0);
    reply.map(2);
    reply.text("t");
    return out.text();
  };
  const std::string begin = std::string("+OK\r\n:-9223372036854775808\r\n$4\r\na\r\n\0\r\n", 38);
  EXPECT_EQ(written(Protocol::kResp2), begin + "$-1\r\n*-1\r\n*0\r\n*4\r\n$1\r\nt\r\n");
  EXPECT_EQ(written(Protocol::kResp3), begin + "_\r\n_\r\n*0\r\n%2\r\n=5\r\ntxt:t\r\n");
}

// What a client has sent may stand in an error, and must not be a reply of its own.
TEST(Reply, an_error_is_one_line_whatever_is_in_it) {
  Replies out;
  Reply(out, Protocol::kResp2).error("ERR unknown command 'a\r\n+OK\r\n'");
  EXPECT_EQ(out.text(), "-ERR unknown command 'a  +OK  '\r\n");
}

TEST(Commands, are_found_by_their_names_in_any_case) {
  for (const Row& row : rows()) {
    EXPECT_EQ(row_of(row.name), &row);
    // One that needs a subcommand is never run itself.
    if (row.subcommands != nullptr && row.arity == -2) continue;
    EXPECT_TRUE(row.at_once != nullptr || row.as_task != nullptr) << row.name;
    EXPECT_TRUE(row.kind != Kind::kLocal || row.at_once != nullptr) << row.name;
    const bool is_told_at_once = row.kind == Kind::kLocal || holds_others_back(row);
    EXPECT_TRUE(is_told_at_once || row.as_task != nullptr) << row.name;
  }
  ASSERT_NE(row_of("GeT"), nullptr);
  EXPECT_EQ(row_of("GeT")->name, "get");
  EXPECT_EQ(row_of(""), nullptr);
  EXPECT_EQ(row_of(std::string(1'000, 'g')), nullptr);
}

}  // namespace
}  // namespace refract::doors::redis
