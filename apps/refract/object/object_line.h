// SPDX-License-Identifier: Apache-2.0
// The command line of `refract object`, taken apart. Nothing is opened or connected here.
//
// Threads: one. Errors are Reports with kInvalidArgument, which say what is wrong and where to read more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/refract/command_line.h"
#include "apps/refract/help.h"

#include "refract/base/report.h"
#include "refract/client/objects_types.h"

namespace refract::cli {

// What follows the word `object`; the rest of an Invocation as every command has it.
struct ObjectInvocation {
  Invocation base;     // Its command is empty where text is to be printed.
  std::string action;  // "put"
  std::vector<std::string> ids;
  std::vector<std::string> nodes;  // broadcast: nothing: all nodes.
  std::string file;      // put: "-" or nothing is the standard input. get: where to; nothing: the output.
  std::string metadata;  // put
  bool shows_metadata = false;          // get: instead of the body.
  std::optional<uint64_t> wait_ms;      // For an object, or for room. Nothing: what the command does.
  uint64_t birth = 0;                   // rm: 0: any.
  uint64_t bytes = 0;                   // evict
  uint64_t limit = UINT64_MAX;          // ls, subscribe: lines.
  std::optional<uint32_t> copies;       // put, copies
  std::string prefix;                   // ls
  bool all = false;                     // ls
  bool is_off = false;                  // keep
  bool keeps = false;                   // put
  Transfer transfer = Transfer::kAuto;  // get, prefetch
  bool is_checked = false;              // prefetch
  bool hex = false;                     // Ids are given and shown as hexadecimal digits.
};

// The place of the word `object` among those of a command line, where it is the command.
[[nodiscard]] std::optional<size_t> object_word(std::span<const char* const> words) noexcept;

// `argv` without the program's name; `at`: what object_word() said.
[[nodiscard]] Reported<ObjectInvocation> parse_object_line(std::span<const char* const> words, size_t at,
                                                           const char* environment_socket);

[[nodiscard]] std::span<const HelpPage> object_pages() noexcept;
[[nodiscard]] std::string object_overview();
[[nodiscard]] std::string help_of_object(std::string_view action);
// All options of an action, so that a test can hold them against the help text.
[[nodiscard]] std::vector<std::string> object_option_names(std::string_view action);

[[nodiscard]] int run_object(const ObjectInvocation& invocation);

}  // namespace refract::cli
