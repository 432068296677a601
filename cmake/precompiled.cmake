# SPDX-License-Identifier: Apache-2.0
# Headers of others that many sources take, compiled once: googletest is half of what a test costs the
# compiler. None of ours is among them, so that a change recompiles what includes it and no more.
#
# A source still includes what it uses, as the other builds see: only what clang builds with the address
# sanitizer begins with these, and tests with the thread sanitizer. g++ 12 takes more of the standard
# library's code for wrong when it comes from such a file; and clang-tidy and clangd read the thread build's
# commands for libraries and programs, for which nothing needs to be built before.
set(REFRACT_PRECOMPILED OFF)
set(REFRACT_PRECOMPILED_TESTS OFF)
if(REFRACT_SANITIZE STREQUAL "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(REFRACT_PRECOMPILED ON)
endif()
if(REFRACT_TESTS AND REFRACT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(REFRACT_PRECOMPILED_TESTS ON)
endif()

set(REFRACT_STANDARD_HEADERS
  <algorithm> <array> <atomic> <chrono> <coroutine> <cstdint> <cstring> <deque> <expected> <functional>
  <map> <memory> <mutex> <optional> <span> <string> <string_view> <unordered_map> <utility> <vector>
  <fmt/format.h>)
set(REFRACT_TEST_HEADERS
  ${REFRACT_STANDARD_HEADERS} <filesystem> <fstream> <set> <thread> <gtest/gtest.h> <gmock/gmock.h>)

# refract_precompiled(NAME HEADERS ... [OPTIONS ...] [LINKS ...]): headers for what is compiled with just
# these options.
function(refract_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;OPTIONS;LINKS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing but what it begins with.\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE refract_flags fmt::fmt Threads::Threads ${ARG_LINKS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS} ${REFRACT_PRECOMPILED_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# refract_begin_with(NAME TARGET): each source of TARGET begins with the headers of refract_precompiled(NAME
# ...).
function(refract_begin_with name target)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
    target_compile_options(${target} PRIVATE ${REFRACT_PRECOMPILED_OPTIONS})
  endif()
endfunction()

# refract_precompile_layer(TARGET): a library of ours, as its folder has it compiled.
function(refract_precompile_layer target)
  get_directory_property(options COMPILE_OPTIONS)
  if("-O0" IN_LIST options)
    refract_begin_with(refract_unoptimized_headers ${target})
  else()
    refract_begin_with(refract_layer_headers ${target})
  endif()
endfunction()

if(REFRACT_PRECOMPILED OR REFRACT_PRECOMPILED_TESTS)
  # Else two runs of the same compiler differ in a time, and ccache has no use for what the other made.
  set(REFRACT_PRECOMPILED_OPTIONS "SHELL:-Xclang -fno-pch-timestamp")
  # The same for the build folder's path, which ccache does not look for behind -Xclang, where CMake has it.
  set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -Xclang -emit-pch -include <PCH_HEADER> -x c++-header)
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
endif()
if(REFRACT_PRECOMPILED)
  refract_precompiled(refract_layer_headers HEADERS ${REFRACT_STANDARD_HEADERS})
  refract_precompiled(refract_unoptimized_headers HEADERS ${REFRACT_STANDARD_HEADERS} OPTIONS -O0)
endif()
if(REFRACT_PRECOMPILED_TESTS)
  refract_precompiled(refract_test_headers HEADERS ${REFRACT_TEST_HEADERS}
    OPTIONS ${REFRACT_TEST_OPTIONS} -fPIE LINKS GTest::gtest GTest::gmock)
  # As an executable has it, not as a library.
  set_target_properties(refract_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endif()
