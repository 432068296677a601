# SPDX-License-Identifier: Apache-2.0
# Sources of one folder compiled together: most of a source's cost is what it includes, which a unit of eight
# shares. A build from nothing takes about half the processor time. A change of one source compiles its
# neighbours too, so developers may switch it off (-DREFRACT_UNITY=OFF). scripts/lint compiles each alone,
# so that a source which takes an include from its neighbour is found. Names are therefore distinct inside a
# folder.
set(REFRACT_UNITY_BATCH 8 CACHE STRING "Sources in one unit; 0: all of a folder, which finds equal names")

# refract_compile_together(TARGET [APART source ...]): the sources of TARGET, except those APART, which use
# the same name for different things or whose machine code gets slower beside others, and except versions.cc,
# in whose place the programs of tests/upgrade link another one.
function(refract_compile_together target)
  cmake_parse_arguments(ARG "" "" "APART" ${ARGN})
  if(NOT REFRACT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${REFRACT_UNITY_BATCH})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ takes a type without linkage for one that other units see, because the unit includes the source.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  get_target_property(versions ${target} SOURCES)
  list(FILTER versions INCLUDE REGEX "/versions[.]cc$")
  if(versions OR ARG_APART)
    set_source_files_properties(${versions} ${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
