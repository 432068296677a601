// SPDX-License-Identifier: Apache-2.0
// Pages of 2 MiB for memory files, without an administrator.
//
// The kernel's settings decide when it gives such pages by itself, and for shared memory they say "never"
// nearly everywhere. A process that asks for them in so many words gets them all the same (MADV_COLLAPSE,
// Linux 6.1), if there are contiguous pages left. Design page 035.
//
// Threads: any. Control path only, but for wish_for_large_pages(): takes memory and blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace refract {

// Takes the memory of every 2 MiB page that lies whole in the `bytes` at `address`, which map the memory file
// `descriptor` from `file_offset` on, shared and writable, and makes it one page each; what is in the file
// stays. Addresses and offsets in the file must be congruent modulo 2 MiB, or nothing is done. Returns the
// bytes that lie in large pages now; what it does not count may be taken or not.
[[nodiscard]] uint64_t take_large_pages(int descriptor, uint64_t file_offset, std::byte* address,
                                        uint64_t bytes) noexcept;

// Has the kernel take pages of 2 MiB for the private memory there that has no pages yet, if it has any:
// filling 64 MiB then takes a fault for each 2 MiB instead of one for each 4 KiB. A system call; errors do no
// harm.
void wish_for_large_pages(void* address, uint64_t bytes) noexcept;

// Whether this process gets them, found out with a memory file of one page. Costs some 100 us.
[[nodiscard]] bool large_pages_are_granted() noexcept;

}  // namespace refract
