// SPDX-License-Identifier: Apache-2.0
// One program makes an object, others read the same memory:
//   objects ADDRESS make ID MIB        fills so many MiB with numbers
//   objects ADDRESS sum ID             waits for it and adds them up; run as many as you like
#include "refract/client/objects.h"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <span>
#include <string_view>

#include "refract/client/client.h"

namespace {

int complain(const refract::Report& why) {
  std::cerr << why.to_string() << '\n';
  return 1;
}

int make(refract::Objects& objects, std::string_view id, uint64_t mib) {
  constexpr uint64_t kPiece = 4 << 20;  // The node copies what is filled while the rest is made.
  auto made = objects.create(id, mib << 20);
  if (!made) return complain(objects.trouble());
  auto* numbers = reinterpret_cast<uint64_t*>(made->body().data());
  for (uint64_t i = 0; i < made->body().size() / sizeof(uint64_t); ++i) {
    if (i > 0 && i * sizeof(uint64_t) % kPiece == 0) (void)made->filled(i * sizeof(uint64_t));
    numbers[i] = i;
  }
  const auto object = made->seal();
  if (!object) return complain(objects.trouble());
  std::cout << object->id() << " has " << object->body().size() << " bytes\n";
  return 0;
}

int sum(refract::Objects& objects, std::string_view id) {
  const auto object = objects.get(id, refract::Objects::kForever);
  if (!object) return complain(objects.trouble());
  const std::span numbers(reinterpret_cast<const uint64_t*>(object->body().data()),
                          object->body().size() / sizeof(uint64_t));
  std::cout << id << " adds up to " << std::accumulate(numbers.begin(), numbers.end(), uint64_t{0})
            << (object->is_copy() ? ", read from a copy\n" : ", read in place\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "objects ADDRESS make ID MIB | objects ADDRESS sum ID\n";
    return 2;
  }
  auto client = refract::Client::connect(argv[1]);
  if (!client) return complain(client.error());
  auto objects = client->objects();
  if (!objects) return complain(objects.error());
  if (std::string_view(argv[2]) == "sum") return sum(*objects, argv[3]);
  return make(*objects, argv[3], argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1);
}
