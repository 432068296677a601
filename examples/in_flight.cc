// SPDX-License-Identifier: Apache-2.0
// Keeps 64 gets in flight all the time, in one thread, and says how many it made in a second.
//   in_flight ADDRESS [GETS]
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "refract/client/async_client.h"

using refract::AsyncClient;
using refract::runtime::Shard;
using refract::runtime::Task;

namespace {

constexpr int kInFlight = 64;
constexpr uint64_t kKeys = 1'000;

struct Work {
  uint64_t gets_left;
  uint64_t wrong = 0;
  int under_way = 0;
  int under_way_max = 0;
};

std::string key_of(uint64_t number) {
  return "key " + std::to_string(number % kKeys);
}
std::string value_of(uint64_t number) {
  return "value " + std::to_string(number % kKeys);
}

Task<bool> put_all(AsyncClient& client) {
  for (uint64_t number = 0; number < kKeys; ++number) {
    const std::string key = key_of(number);
    const std::string value = value_of(number);
    const auto version = co_await client.put(key, value);
    if (!version) co_return false;
  }
  co_return true;
}

// One of 64: gets one key after the other.
Task<> get_in_a_row(AsyncClient& client, Work& work) {
  std::string value;
  while (work.gets_left > 0) {
    const uint64_t number = --work.gets_left;
    const std::string key = key_of(number);
    if (++work.under_way > work.under_way_max) work.under_way_max = work.under_way;
    const auto got = co_await client.get(key, value);
    --work.under_way;
    if (!got || value != value_of(number)) ++work.wrong;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Shard shard(refract::system_clock());
  auto connected = block_on(shard, AsyncClient::connect(shard, argc > 1 ? argv[1] : ""));
  if (!connected) {
    std::cerr << connected.error().to_string() << '\n';
    return 1;
  }
  AsyncClient& client = **connected;
  if (!block_on(shard, put_all(client))) return 1;

  const uint64_t gets = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  Work work{.gets_left = gets};
  const uint64_t begun_ns = shard.refresh_now();
  for (int i = 0; i < kInFlight; ++i) shard.spawn(get_in_a_row(client, work));
  (void)shard.run_until([&shard] { return shard.gate().count() == 0; });
  const auto seconds = static_cast<double>(shard.refresh_now() - begun_ns) * 1e-9;
  // The client must not go in the turn in which its last operation ended.
  (void)shard.poll_once();

  std::cout << gets << " gets, " << work.wrong << " wrong, up to " << work.under_way_max << " in flight, "
            << static_cast<uint64_t>(static_cast<double>(gets) / seconds) << " a second\n";
  return work.wrong == 0 ? 0 : 1;
}
