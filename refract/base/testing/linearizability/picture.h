// SPDX-License-Identifier: Apache-2.0
// A contradiction as a picture: time from left to right, a lane for each client, an operation as a bar from
// its call to its return with what it asked and was told. The axis is the order of calls and returns, with
// their times beneath, since what matters is the order of the calls.
#pragma once

#include <string>

#include "refract/base/testing/linearizability/checker.h"
#include "refract/base/testing/linearizability/history.h"

namespace refract::linearizability {

// For a terminal, at most `columns` wide where names permit.
[[nodiscard]] std::string draw_text(const History& history, const Violation& violation, size_t columns = 100);

// A whole SVG file. The involved operations stand out, the convicted one most; hovering gives details.
[[nodiscard]] std::string draw_svg(const History& history, const Violation& violation);

// Writes the SVG to `path`; false: it cannot be written there.
[[nodiscard]] bool write_svg(const std::string& path, const History& history, const Violation& violation);

}  // namespace refract::linearizability
