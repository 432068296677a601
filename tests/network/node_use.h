// SPDX-License-Identifier: Apache-2.0
// What a node's server takes, as the system sees it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace refract::test {

// Resident and its own, without the store and other shared memory; 0: no such process.
[[nodiscard]] uint64_t private_bytes(pid_t process);
// 0: only root may know.
[[nodiscard]] size_t descriptors_of(pid_t process);
[[nodiscard]] uint64_t threads_of(pid_t process);
// Pieces of its address space; 0: only root may know.
[[nodiscard]] size_t mappings_of(pid_t process);
// How many descriptors it may have.
[[nodiscard]] size_t descriptors_max(pid_t process);
// Of a test that is built with a sanitizer, whose allocator keeps what was freed, so the server is as well.
[[nodiscard]] uint64_t sanitizer_bytes();

}  // namespace refract::test
