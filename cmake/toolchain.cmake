# SPDX-License-Identifier: Apache-2.0
# Flags for every target of ours, the choice of sanitizer, and ccache where present.

find_program(REFRACT_CCACHE ccache)
if(REFRACT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${REFRACT_CCACHE})
endif()

set(REFRACT_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")

add_library(refract_flags INTERFACE)
target_include_directories(refract_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
# x86-64-v2 is what every server of the last decade runs; newer instructions are chosen at run time.
target_compile_options(refract_flags INTERFACE
  -march=x86-64-v2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Werror
  -fno-omit-frame-pointer)

if(REFRACT_SANITIZE STREQUAL "address")
  set(REFRACT_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(REFRACT_SANITIZE STREQUAL "thread")
  set(REFRACT_SANITIZE_FLAGS -fsanitize=thread)
endif()
if(REFRACT_SANITIZE_FLAGS)
  target_compile_options(refract_flags INTERFACE ${REFRACT_SANITIZE_FLAGS})
  target_link_options(refract_flags INTERFACE ${REFRACT_SANITIZE_FLAGS})
  target_compile_definitions(refract_flags INTERFACE REFRACT_DCHECK_ON=1)
endif()
