// SPDX-License-Identifier: Apache-2.0
// Puts one entry and reads it back. Against an installed Refract: see CMakeLists.txt beside this, or
//   c++ hello.cc $(pkg-config --cflags --libs refract)
#include <iostream>

#include "refract/client/client.h"

int main(int argc, char** argv) {
  auto client = refract::Client::connect(argc > 1 ? argv[1] : "");
  if (!client) {
    std::cerr << client.error().to_string() << '\n';
    return 1;
  }
  if (!client->put("greeting", "hello, memory")) return 1;
  std::cout << client->get("greeting").value_or("it is gone") << '\n';
}
