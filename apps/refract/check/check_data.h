// SPDX-License-Identifier: Apache-2.0
// check and restore of what a node keeps on disk: its data folder, snapshots and log files.
#pragma once

#include <string>

#include "apps/refract/command_line.h"

#include "refract/documents/value.h"
#include "refract/node/durable/folder_reading.h"

namespace refract::cli {

// Whether `path` is a data folder, or a file of one, rather than a folder of region files.
[[nodiscard]] bool is_data(const std::string& path);
// `path` is whole. Returns the exit code.
[[nodiscard]] int check_data(const Invocation& invocation, const std::string& path);

// As people read it, without and with the damages.
[[nodiscard]] std::string text_of(const node::FolderReading& found, const std::string& path);
[[nodiscard]] documents::Value json_of(const node::FolderReading& found, const std::string& path);

}  // namespace refract::cli
