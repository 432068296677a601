// SPDX-License-Identifier: Apache-2.0
// What the command line client says to people and to the programs that call it: exit codes, errors in two
// lines, exact bytes on the standard output.
//
// Threads: one. Errors of the standard output end the program's work: each writer returns the exit code.
#pragma once

#include <string>
#include <string_view>

#include "apps/records/shown_text.h"

#include "refract/base/report.h"

namespace refract::cli {

// Documented in every --help; scripts depend on them.
enum Exit : int {
  kDone = 0,
  kNotDone = 1,      // Not found, a condition did not hold, some records failed, damage was found.
  kUsage = 2,        // The command line is wrong.
  kUnreachable = 3,  // No node, no server, or no answer in time.
  kFailed = 4,       // Everything else.
};

[[nodiscard]] Exit exit_of(Code code) noexcept;

// "refract: WHAT", and below it what to do. Returns the exit code of the report's code.
int complain(const Report& report);
int complain(Exit exit, std::string_view what, std::string_view next);

// Writes the bytes as they are, at once. kFailed, after a complaint, where they cannot be written; a reader
// that went away (as `head` does) is no failure, and ends the program quietly.
[[nodiscard]] int write_out(std::string_view bytes);
// The object in one line.
[[nodiscard]] int write_json(const documents::Value& object);
// Text for people: on a terminal, whatever else than text it holds is spelled (refract/base/printable.h).
[[nodiscard]] int write_text(std::string_view text);
[[nodiscard]] bool is_output_terminal() noexcept;

// Any bytes, shown.
using records::in_quotes;
using records::printable;

}  // namespace refract::cli
