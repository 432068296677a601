// SPDX-License-Identifier: Apache-2.0
// Moves money between two accounts: what was read still stands when all is written, or the body runs again.
#include <cstdint>
#include <iostream>
#include <string>

#include "refract/client/client.h"

int main(int argc, char** argv) {
  auto client = refract::Client::connect(argc > 1 ? argv[1] : "");
  if (!client) {
    std::cerr << client.error().to_string() << '\n';
    return 1;
  }
  if (!client->put("alice", "100") || !client->put("bob", "0")) return 1;

  const auto move = [&](int64_t amount) {
    return client->transaction([&](refract::Transaction& t) -> refract::Result<> {
      const auto there = t.get("alice");
      if (!there) return refract::fail(there.error());
      if (std::stoll(*there) < amount) return refract::fail(refract::Code::kInvalidArgument);
      if (const auto taken = t.add("alice", -amount); !taken) return taken;
      return t.add("bob", amount);
    });
  };
  for (const int64_t amount : {30, 80}) std::cout << amount << (move(amount) ? " moved, " : " refused, ");
  std::cout << "alice " << *client->get("alice") << ", bob " << *client->get("bob") << '\n';
  // Prints: 30 moved, 80 refused, alice 70, bob 30
}
