# SPDX-License-Identifier: Apache-2.0
# Flags for every target of ours, the choice of sanitizer, and ccache where present.

find_program(REFRACT_CCACHE ccache)
if(REFRACT_CCACHE)
  # ccache asks for this before it caches what begins with precompiled headers (cmake/precompiled.cmake).
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${REFRACT_CCACHE})
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

set(REFRACT_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Refract needs g++ 12 or newer; this is ${CMAKE_CXX_COMPILER_VERSION}")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  # Older clangs do not see the <expected> of libstdc++ 12.
  message(FATAL_ERROR "Refract needs clang 19 or newer; this is ${CMAKE_CXX_COMPILER_VERSION}")
endif()

add_library(refract_flags INTERFACE)
target_include_directories(refract_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
# x86-64-v2 is what every server of the last decade runs; newer instructions are chosen at run time.
target_compile_options(refract_flags INTERFACE
  -march=x86-64-v2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Werror
  -fno-omit-frame-pointer -fdiagnostics-color=auto)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Our own calls inside the shared library need no detour for those who would interpose them.
  target_compile_options(refract_flags INTERFACE -fno-semantic-interposition)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 takes "text" + std::to_string(n) for an overlapping copy (its bug 105651).
    target_compile_options(refract_flags INTERFACE -Wno-restrict)
  endif()
endif()

if(REFRACT_SANITIZE STREQUAL "address")
  set(REFRACT_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(REFRACT_SANITIZE STREQUAL "thread")
  set(REFRACT_SANITIZE_FLAGS -fsanitize=thread)
elseif(NOT REFRACT_SANITIZE STREQUAL "")
  message(FATAL_ERROR "REFRACT_SANITIZE is address, thread or empty, not '${REFRACT_SANITIZE}'")
endif()
if(REFRACT_SANITIZE_FLAGS)
  target_compile_options(refract_flags INTERFACE ${REFRACT_SANITIZE_FLAGS})
  target_link_options(refract_flags INTERFACE ${REFRACT_SANITIZE_FLAGS})
  target_compile_definitions(refract_flags INTERFACE REFRACT_DCHECK_ON=1)
endif()

# A test runs once for each time that it is compiled, so that the compiler's time counts for more.
set(REFRACT_TEST_OPTIONS -O1)
if(REFRACT_SANITIZE)
  set(REFRACT_TEST_OPTIONS -O0)
endif()

if(REFRACT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "REFRACT_FUZZ needs clang: cmake --preset fuzz")
  endif()
  # Everything carries the counters that guide the fuzzer; only the fuzz programs carry its main.
  target_compile_options(refract_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
