// SPDX-License-Identifier: Apache-2.0
#include "refract/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace refract {
namespace {
std::atomic<void (*)() noexcept> g_hook = nullptr;
}  // namespace

void set_check_hook(void (*hook)() noexcept) noexcept {
  g_hook = hook;
}

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  if (const auto hook = g_hook.load()) hook();
  std::abort();
}

}  // namespace refract
