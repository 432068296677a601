// SPDX-License-Identifier: Apache-2.0
// Puts some entries and reads them again and again by the reader of a thread, whose reads are inline here:
//   short_reads [ADDRESS [READS]]
#include <array>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "refract/client/client.h"
#include "refract/client/reader.h"

int main(int argc, char** argv) {
  auto client = refract::Client::connect(argc > 1 ? argv[1] : "");
  if (!client) {
    std::cerr << client.error().to_string() << '\n';
    return 1;
  }
  const size_t reads = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  std::vector<std::string> keys;
  for (int i = 0; i < 1'000; ++i) {
    keys.push_back("key " + std::to_string(i));
    if (!client->put(keys.back(), keys.back())) return 1;
  }
  // Of this thread, and of no other.
  auto reader = client->reader();
  if (!reader) return 1;
  size_t wrong = 0;
  for (size_t i = 0; i < reads; ++i) {
    std::array<std::byte, 64> value;
    const std::string& key = keys[i % keys.size()];
    const auto got = reader->get_into(key, value);
    wrong += got && got->value_bytes == key.size() ? 0 : 1;
  }
  std::cout << reads << " reads, " << wrong << " wrong, " << client->counters().messages_sent
            << " messages\n";
  return wrong == 0 ? 0 : 1;
}
