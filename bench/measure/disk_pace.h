// SPDX-License-Identifier: Apache-2.0
// What the disk below a folder can do, as a plain program sees it: the reference for snapshots and restores.
#pragma once

#include <cstdint>
#include <string>

#include "refract/base/report.h"

namespace refract::bench {

// Writes a file of so many bytes into the folder, syncs it and removes it. Returns bytes a second.
[[nodiscard]] Reported<double> disk_write_rate(const std::string& folder, uint64_t bytes);
// Reads a file that the page cache does not have. Returns bytes a second.
[[nodiscard]] Reported<double> disk_read_rate(const std::string& path);
// Has the page cache forget a folder's files, all of which are synced first.
[[nodiscard]] Reported<> forget_files(const std::string& folder);

}  // namespace refract::bench
