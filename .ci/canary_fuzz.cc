// SPDX-License-Identifier: Apache-2.0
// A fuzz program with a bug that a fuzzer finds at once. scripts/fuzz runs it to show that it notices.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 2 && data[0] == 'c' && data[1] == 'a') {
    std::fputs("the canary died\n", stderr);
    std::abort();
  }
  return 0;
}
