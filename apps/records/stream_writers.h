// SPDX-License-Identifier: Apache-2.0
// The writers behind open_writer.
#pragma once

#include <memory>

#include "apps/records/output.h"
#include "apps/records/record_writer.h"

namespace refract::records {

// REQUIRES: not kDirectory.
[[nodiscard]] std::unique_ptr<RecordWriter> stream_writer(Output output, Format format);
// The directory must be empty.
[[nodiscard]] Reported<std::unique_ptr<RecordWriter>> directory_writer(Descriptor directory,
                                                                       std::string name);

}  // namespace refract::records
