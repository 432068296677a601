// SPDX-License-Identifier: Apache-2.0
// What a node keeps beyond its memory, for people: the lines of `refract stat`, the line of `refract top`.
//
// Threads: any.
#pragma once

#include <span>
#include <string>

#include "refract/node/observe/data_state.h"

namespace refract::cli {

// A node's, put together from those of its shards: sums, and of ages and states the worst.
[[nodiscard]] observe::DataState whole_of(std::span<const observe::DataState> shards);

// Lines "data ...", "log ...", "snapshot ...", "start ...", each with its name in the first 13 columns. Empty
// where the node does not say.
[[nodiscard]] std::string data_lines(std::span<const observe::DataState> shards);

// One line for a screen.
[[nodiscard]] std::string data_line(std::span<const observe::DataState> shards);

}  // namespace refract::cli
