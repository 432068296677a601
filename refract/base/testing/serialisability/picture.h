// SPDX-License-Identifier: Apache-2.0
// An anomaly as a picture: its transactions as bars in the lanes of their clients, its edges as arrows.
#pragma once

#include <string>

#include "refract/base/testing/serialisability/checker.h"
#include "refract/base/testing/serialisability/history.h"

namespace refract::serialisability {

// For a terminal, at most `columns` wide where names permit.
[[nodiscard]] std::string draw_text(const History& history, const Anomaly& anomaly, size_t columns = 100);

// A whole SVG file; hovering gives details.
[[nodiscard]] std::string draw_svg(const History& history, const Anomaly& anomaly);

// Writes the SVG to `path`; false: it cannot be written there.
[[nodiscard]] bool write_svg(const std::string& path, const History& history, const Anomaly& anomaly);

}  // namespace refract::serialisability
