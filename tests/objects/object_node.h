// SPDX-License-Identifier: Apache-2.0
// A node that has objects, clients of it, and objects that convict themselves (process/sealed.h).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/client/client.h"
#include "refract/client/objects.h"

namespace refract::test {

// How many shards for keys the node has, and how its clients reach it.
struct ObjectShape {
  const char* name = "one_shard";
  uint32_t shards = 1;
  bool is_tcp = false;
};
// For INSTANTIATE_TEST_SUITE_P.
inline constexpr ObjectShape kObjectShapes[] = {
    {}, {.name = "two_shards", .shards = 2}, {.name = "over_tcp", .is_tcp = true}};
[[nodiscard]] std::string name_of(const testing::TestParamInfo<ObjectShape>& shape);

// Its server is started again at once, however often it dies.
[[nodiscard]] NodeOptions with_objects(const std::string& limit, const ObjectShape& shape = {});

struct ObjectClient {
  Client client;
  Objects objects;
};
// Fails the test and ends it where the node has no objects.
[[nodiscard]] ObjectClient open_objects(const Node& node, const ObjectShape& shape = {},
                                        const ClientOptions& options = {.timeout_ns = kPatience_ns});

// Puts an object whose body names it.
[[nodiscard]] Result<uint64_t> put_sealed(Objects& objects, std::string_view id, uint64_t number,
                                          uint64_t bytes);
// The number in a body that is whole and was made for this id.
[[nodiscard]] std::optional<uint64_t> number_of(const Object& object);
[[nodiscard]] std::string_view body_text(const Object& object);

// Removes all objects. Nothing, or what is still taken that nothing explains.
[[nodiscard]] std::string leak_after_removing_all(Objects& objects);

}  // namespace refract::test
