// SPDX-License-Identifier: Apache-2.0
// How many instructions of this process an operation takes: the same on every machine, however busy.
//
// Method: a forked child stops itself, is moved on instruction by instruction, and stops again. One that runs
// more operations in between takes more steps; the difference is theirs alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace refract::bench {

// Runs the operation so many times; false: one has failed.
using Operations = std::function<bool(unsigned count)>;

// `prepare` is called in the child, whose operations are warm when they are counted. Nothing where processes
// may not be traced; 0: an operation failed.
[[nodiscard]] std::optional<uint64_t> instructions_of(const std::function<Operations()>& prepare);

}  // namespace refract::bench
