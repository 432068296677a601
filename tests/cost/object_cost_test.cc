// SPDX-License-Identifier: Apache-2.0
// What objects cost: a get by the program itself, and what the owner does of a put.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/cost/expect_cost.h"
#include "tests/process/node_process.h"

#include "refract/client/objects.h"
#include "refract/object/testing/test_store.h"

namespace refract::test {
namespace {

const std::string kId = "tensor:00000042!";  // 16 bytes.
const std::string kBody(64, 'v');

// The server is not waited for: what it does is no part of the count.
TEST(ObjectCost, a_get_that_is_let_go_is_no_longer_than_it_was) {
  Node node({.arguments = {"--objects-limit", "16MiB"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  expect_cost({"get of an object", 569, [&node] {
                 struct Held {
                   Client client;
                   Reported<Objects> objects;
                 };
                 Client client = node.connect();
                 Reported<Objects> objects = client.objects();
                 const auto held = std::make_shared<Held>(Held{std::move(client), std::move(objects)});
                 (void)held->objects->put(kId, kBody);
                 return repeated([held] {
                   const Result<Object> object = held->objects->get(kId);
                   return object && object->body().size() == kBody.size();
                 });
               }});
}

std::function<Operations()> on_store(bool is_put) {
  return [is_put] {
    const auto world = std::make_shared<object::test::StoreWorld>();
    const auto birth = std::make_shared<uint64_t>(0);
    return repeated([world, birth, is_put] {
      const auto made =
          is_put ? world->put(kId, ++*birth, kBody.size()) : world->make(kId, ++*birth, kBody.size());
      return made && world->store().erase(object::test::id_of(kId), 0);
    });
  };
}

TEST(ObjectCost, nor_are_a_put_and_an_erasure_of_the_owner) {
  expect_cost({"put and erase", 5'309, on_store(true)});
}

TEST(ObjectCost, nor_are_a_creation_a_seal_and_an_erasure) {
  expect_cost({"create, seal and erase", 7'039, on_store(false)});
}

}  // namespace
}  // namespace refract::test
