// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/conformance/allocation_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace refract {
namespace {

thread_local uint64_t t_allocation_count = 0;

[[maybe_unused]] void* allocate(size_t bytes, size_t alignment) noexcept {
  ++t_allocation_count;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

uint64_t allocation_count() noexcept {
  return t_allocation_count;
}

}  // namespace refract

#ifndef REFRACT_COUNT_NO_ALLOCATIONS

void* operator new(size_t bytes) {
  return refract::allocate(bytes, alignof(std::max_align_t));
}
void* operator new[](size_t bytes) {
  return refract::allocate(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return refract::allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return refract::allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return refract::allocate(bytes, alignof(std::max_align_t));
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return refract::allocate(bytes, alignof(std::max_align_t));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#endif
