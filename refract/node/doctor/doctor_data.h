// SPDX-License-Identifier: Apache-2.0
// The doctor on what a node keeps on disk: its folder, the file system under that, and how long fdatasync
// takes there.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "refract/node/doctor/doctor.h"

namespace refract::node {

// Changes nothing. Nothing but a word on data.durability where that is none.
[[nodiscard]] std::vector<Finding> examine_data(const DoctorInputs& inputs);

// Writes and syncs 4 KiB some times, in a file without a name: the median. Nothing where no folder is used,
// or there is none yet that could be written to.
[[nodiscard]] std::vector<Finding> measure_data(const DoctorInputs& inputs);

// What the kind of a file system (statfs's f_type) means for data that shall last.
struct FileSystemFacts {
  std::string_view name;     // "tmpfs"; empty: none that needs a word.
  std::string_view trouble;  // Empty: none.
  std::string_view mend;
};
[[nodiscard]] FileSystemFacts file_system_facts(uint64_t type) noexcept;

}  // namespace refract::node
