// SPDX-License-Identifier: Apache-2.0
// The folder of a real file system, as a Disk. Files have mode 0600, and are opened relative to the folder's
// descriptor, so that renaming the folder under a running node does no harm.
#pragma once

#include <memory>
#include <string>

#include "refract/storage/disk.h"

namespace refract::storage {

// `folder` is an absolute path. Where it does not exist it is made (mode 0700), but not its parents.
[[nodiscard]] Reported<std::unique_ptr<Disk>> open_posix_disk(const std::string& folder);
// kNotFound where there is no such folder; for tools, which must not make one.
[[nodiscard]] Reported<std::unique_ptr<Disk>> open_existing_posix_disk(const std::string& folder);

// What a person is told of a failed call, and the code for programs: errno's meaning for a disk.
[[nodiscard]] std::unexpected<Report> report_errno(int error, std::string_view what, std::string_view path);

}  // namespace refract::storage
