// SPDX-License-Identifier: Apache-2.0
// A refractd whose shard of objects also reaches the other members: nothing but a row is different.
#include <unistd.h>

#include <cstdio>

#include "tests/cluster/peer_store.h"

#include "refract/base/log.h"
#include "refract/node/config/config.h"
#include "refract/node/hosted_kv/hosted_kv.h"
#include "refract/node/hosted_objects/hosted_objects.h"
#include "refract/node/keeper/banner.h"
#include "refract/node/keeper/keeper.h"

namespace {

constexpr refract::node::StoreRow kOfKeys[] = {refract::node::kKvRow};
constexpr refract::node::StoreRow kOfObjects[] = {
    refract::node::kObjectsRow,
    {.name = "peers", .make = refract::test::host_peer_store},
};

int refuse(const refract::Report& report) {
  std::fprintf(stderr, "%s\n", report.to_string().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  auto loaded = refract::node::load_config(argc, argv, environ);
  if (!loaded) return refuse(loaded.error());
  refract::set_log_level(loaded->config.log_level);
  auto keeper = refract::node::Keeper::open(loaded->config, {.keys = kOfKeys, .objects = kOfObjects});
  if (!keeper) return refuse(keeper.error());
  return (*keeper)->run([&] {
    std::fputs(refract::node::start_banner(**keeper, "refract").c_str(), stdout);
    std::fflush(stdout);
  });
}
