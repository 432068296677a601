// SPDX-License-Identifier: Apache-2.0
// The RDMA devices that the kernel names: a look into /sys, which opens no library, no device and no
// connection, for callers that want to know whether any of that is useful.
//
// Control path: these calls allocate. Any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/system_root.h"

namespace refract::fabric::verbs {

// What may stand where a device is named, beside its name: one that works, and none at all.
inline constexpr std::string_view kAnyDevice = "auto";
inline constexpr std::string_view kNoDevice = "none";
// Whether `text` may be the name of a device, or one of the two above.
[[nodiscard]] bool is_device_name(std::string_view text) noexcept;

// In the order of their names. Empty: none, or a kernel without RDMA.
[[nodiscard]] std::vector<std::string> device_names(const SystemRoot& system = {});

// kUnsupported: `name` is none of `names`, with those that there are.
[[nodiscard]] Reported<> check_device_name(std::string_view name, std::span<const std::string> names);

// What is said where RDMA is wanted and there is nothing to have it by.
[[nodiscard]] Report no_device_here();

}  // namespace refract::fabric::verbs
