// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/object_node.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/process/sealed.h"

namespace refract::test {

std::string name_of(const testing::TestParamInfo<ObjectShape>& shape) {
  return shape.param.name;
}

NodeOptions with_objects(const std::string& limit, const ObjectShape& shape) {
  return {.arguments = {"--objects-limit", limit, "--server-shards", std::to_string(shape.shards),
                        "--listen-address", "127.0.0.1:0", "--restart-limit", "1000", "--restart-backoff",
                        "0ns"}};
}

ObjectClient open_objects(const Node& node, const ObjectShape& shape, const ClientOptions& options) {
  Client client = shape.is_tcp ? node.connect_tcp(options) : node.connect(options);
  auto objects = client.objects();
  if (!objects) {
    ADD_FAILURE() << objects.error().to_string();
    std::abort();
  }
  return {.client = std::move(client), .objects = *objects};
}

Result<uint64_t> put_sealed(Objects& objects, std::string_view id, uint64_t number, uint64_t bytes) {
  return objects.put(id, sealed_value(id, number, bytes));
}

std::optional<uint64_t> number_of(const Object& object) {
  return number_in(object.id(), body_text(object));
}

std::string_view body_text(const Object& object) {
  return {reinterpret_cast<const char*>(object.body().data()), object.body().size()};
}

std::string leak_after_removing_all(Objects& objects) {
  uint64_t cursor = 0;
  do {
    const auto page = objects.list(cursor);
    if (!page) return fmt::format("list was answered with {}", info(page.code()).text);
    for (const ListedObject& one : page->objects) {
      const auto removed = objects.remove(one.id);
      if (!removed && removed.code() != Code::kNotFound) {
        return fmt::format("remove was answered with {}", info(removed.code()).text);
      }
    }
    cursor = page->next;
  } while (cursor != 0);
  ObjectStat stat;
  const bool is_clean = becomes_true([&] {
    const auto now = objects.stat();
    if (now) stat = *now;
    return now && stat.used == 0 && stat.objects == 0 && stat.creations == 0 && stat.removed == 0;
  });
  if (is_clean) return {};
  return fmt::format("{} bytes of {} objects, {} creations and {} removed ones", stat.used, stat.objects,
                     stat.creations, stat.removed);
}

}  // namespace refract::test
