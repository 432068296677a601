// SPDX-License-Identifier: Apache-2.0
// Which boot of which machine this is: two processes that see the same bytes run under the same kernel.
// Another container of the host sees them, too, so sameness promises no shared file system.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace refract {

using BootId = std::array<std::byte, 16>;

// As the kernel says; nothing where it does not. Control path: reads a file.
[[nodiscard]] std::optional<BootId> host_boot_id();

// The bytes of "c1f0…-…" in the order written; nothing where the text is no such identifier.
[[nodiscard]] std::optional<BootId> parse_boot_id(std::string_view text) noexcept;

}  // namespace refract
