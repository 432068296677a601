// SPDX-License-Identifier: Apache-2.0
// What the command line client says to people and to the programs that call it: exit codes, errors in two
// lines, exact bytes on the standard output.
//
// Threads: one. Errors of the standard output end the program's work: each writer returns the exit code.
#pragma once

#include <string>
#include <string_view>

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
[[nodiscard]] bool is_output_terminal() noexcept;

// For a message: in quotes, shortened, everything that is no plain text spelled \xNN.
[[nodiscard]] std::string in_quotes(std::string_view bytes);
// For a terminal: whole, everything that is no UTF-8 or would move the cursor spelled \xNN.
[[nodiscard]] std::string printable(std::string_view bytes);
// The member of a JSON object that holds any bytes: "key": "..." or, where they are not UTF-8, "key_base64".
[[nodiscard]] std::string json_member(std::string_view name, std::string_view bytes);
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace refract::cli
