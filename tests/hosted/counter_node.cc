// SPDX-License-Identifier: Apache-2.0
// A refractd that hosts a second store: nothing but its row is different.
#include <unistd.h>

#include <cstdio>

#include "tests/hosted/counter_store.h"

#include "refract/base/log.h"
#include "refract/node/config/config.h"
#include "refract/node/hosted_kv/hosted_kv.h"
#include "refract/node/keeper/banner.h"
#include "refract/node/keeper/keeper.h"

namespace {

constexpr refract::node::StoreRow kRows[] = {
    refract::node::kKvRow,
    {.name = "counter", .make = refract::test::host_counter},
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
  auto keeper = refract::node::Keeper::open(loaded->config, {.keys = kRows, .objects = {}});
  if (!keeper) return refuse(keeper.error());
  return (*keeper)->run([&] {
    std::fputs(refract::node::start_banner(**keeper, "refract").c_str(), stdout);
    std::fflush(stdout);
  });
}
