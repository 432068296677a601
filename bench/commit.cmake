# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a header that says which commit of SOURCE and which COMPILER a program is built from. The
# file is touched only when that changes.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Written by commit.cmake.
#pragma once
namespace refract::bench {
inline constexpr const char* kCommit = "@commit@";
inline constexpr const char* kCompiler = "@COMPILER@";
}  // namespace refract::bench
]])
