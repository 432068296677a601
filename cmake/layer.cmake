# SPDX-License-Identifier: Apache-2.0
# A layer is a folder, a static library, and one test program. What it may use is the LINKS it names; the
# linker refuses the rest, and scripts/tidy.py refuses the includes.

# refract_glob(OUT END FOLDER ...): the files in these folders, not below them, whose names end so.
macro(refract_glob out end)
  set(patterns "")
  foreach(folder ${ARGN})
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*${end})
  endforeach()
  list(TRANSFORM patterns REPLACE "/[.]/" "/")
  file(GLOB ${out} CONFIGURE_DEPENDS ${patterns})
endmacro()

# refract_layer(NAME [ROOMS folder ...] [LINKS ...] [EXTRA ...] [TEST_LINKS ...] [APART ...] [LABELS ...]
# [TIMEOUT seconds]): sources of the current folder, or of these folders below it (`.`: the current one),
# become refract_NAME, its *_test.cc become NAME_test, its *_fuzz.cc become fuzz programs, its *_bench.cc are
# left to bench/. LINKS are layers of ours, EXTRA is anything else; TEST_LINKS are for the tests alone. APART
# goes to refract_compile_together, LABELS and TIMEOUT to refract_test.
function(refract_layer name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ROOMS;LINKS;EXTRA;TEST_LINKS;LABELS;APART" ${ARGN})
  if(NOT ARG_ROOMS)
    set(ARG_ROOMS .)
  endif()
  refract_glob(sources .cc ${ARG_ROOMS})
  refract_glob(tests _test.cc ${ARG_ROOMS})
  refract_glob(fuzzers _fuzz.cc ${ARG_ROOMS})
  refract_glob(benches _bench.cc ${ARG_ROOMS})
  list(REMOVE_ITEM sources ${tests} ${fuzzers} ${benches} "")
  if(sources)
    add_library(refract_${name} STATIC ${sources})
    target_link_libraries(refract_${name} PUBLIC refract_flags ${ARG_LINKS} ${ARG_EXTRA})
    refract_precompile_layer(refract_${name})
    refract_compile_together(refract_${name} APART ${ARG_APART})
  else()
    add_library(refract_${name} INTERFACE)
    target_link_libraries(refract_${name} INTERFACE refract_flags ${ARG_LINKS} ${ARG_EXTRA})
  endif()
  if(REFRACT_TESTS AND tests)
    refract_test(${name}_test SOURCES ${tests} LINKS refract_${name} ${ARG_TEST_LINKS}
                 LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT})
  endif()
  if(REFRACT_FUZZ)
    # Of what tests link, a build without tests has only a part, which is all that fuzz programs need.
    set(fuzz_links)
    foreach(link ${ARG_TEST_LINKS})
      if(TARGET ${link})
        list(APPEND fuzz_links ${link})
      endif()
    endforeach()
    foreach(fuzzer ${fuzzers})
      refract_fuzzer(${fuzzer} LINKS refract_${name} ${fuzz_links})
    endforeach()
  endif()
endfunction()

# refract_test(NAME SOURCES ... LINKS ... [LABELS ...] [TIMEOUT seconds] [RUN_SERIAL]
# [SHORT variable=value ...]): one gtest program, one ctest entry. The label `thread` has it run under the
# thread sanitizer too; RUN_SERIAL is for tests that need the machine to themselves. A sanitized build gets
# three times the TIMEOUT (300 s unless said otherwise).
# What may take longer than others begins first, so that no core is idle at the end.
# With SHORT it takes long, so it has the label `long`, and `make test` leaves it out. A second entry,
# NAME_short, runs with these variables in its environment and has the label `short`: `make test` has it, and
# .ci/run leaves it out. A sanitized build has one entry and none of these labels.
# With the label `verbs` it needs RDMA devices: ctest does not know it, and scripts/verbs-tests runs it.
function(refract_test name)
  cmake_parse_arguments(ARG "RUN_SERIAL" "TIMEOUT" "SOURCES;LINKS;LABELS;SHORT" ${ARGN})
  # Without a cost of its own ctest takes what it measured before.
  set(cost 0)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  elseif(ARG_TIMEOUT GREATER 300)
    set(cost ${ARG_TIMEOUT})
  endif()
  if(REFRACT_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 3")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${REFRACT_TEST_OPTIONS})
  refract_begin_with(refract_test_headers ${name})
  refract_compile_together(${name})
  target_link_libraries(${name} PRIVATE
    refract_flags ${ARG_LINKS} refract_processes refract_last_words GTest::gtest GTest::gmock
    GTest::gtest_main)
  if("verbs" IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY REFRACT_VERBS_TESTS ${name})
    set_property(GLOBAL APPEND_STRING PROPERTY REFRACT_VERBS_LIST "${name} ${ARG_TIMEOUT}\n")
    return()
  endif()
  # What each test came to is kept, since a program whose tests were skipped passes all the same.
  add_test(NAME ${name}
    COMMAND ${name} --gtest_brief=1 --gtest_output=json:${CMAKE_BINARY_DIR}/results/${name}.json)
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" RUN_SERIAL ${ARG_RUN_SERIAL} COST ${cost})
  if(ARG_SHORT AND NOT REFRACT_SANITIZE)
    set_property(TEST ${name} APPEND PROPERTY LABELS long)
    add_test(NAME ${name}_short
      COMMAND ${name} --gtest_brief=1 --gtest_output=json:${CMAKE_BINARY_DIR}/results/${name}_short.json)
    set_tests_properties(${name}_short PROPERTIES ENVIRONMENT "${ARG_SHORT}"
      TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS};short" RUN_SERIAL ${ARG_RUN_SERIAL})
  endif()
  set_property(GLOBAL APPEND PROPERTY REFRACT_GTESTS ${name})
  if("thread" IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY REFRACT_THREAD_TESTS ${name})
  endif()
endfunction()

# refract_fuzzer(SOURCE LINKS ...): one libFuzzer program, named after its source. scripts/fuzz runs them all,
# each with the seeds in corpus/<program>/ beside the source, where there are any.
function(refract_fuzzer source)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  get_filename_component(program ${source} NAME_WE)
  add_executable(${program} ${source})
  target_compile_options(${program} PRIVATE -fsanitize=fuzzer)
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${program} PRIVATE ${ARG_LINKS})
  set_property(GLOBAL APPEND PROPERTY REFRACT_FUZZERS ${program})
endfunction()

# refract_targets_below(OUT FOLDER): the targets made in a folder and in those below it.
function(refract_targets_below out folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder ${subfolders})
    refract_targets_below(more ${subfolder})
    list(APPEND targets ${more})
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

# refract_programs(FOLDER ...): the executables made in these folders that are not tests, as the target
# `programs`, so that building them never builds a test; and in `fuzzers` whatever refract_fuzzer made.
function(refract_programs)
  add_custom_target(programs)
  add_custom_target(fuzzers)
  set(programs "")
  foreach(folder ${ARGN})
    refract_targets_below(targets ${folder})
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "EXECUTABLE" AND NOT target MATCHES "_(test|fuzz|bench)$")
        list(APPEND programs ${target})
      endif()
    endforeach()
  endforeach()
  if(programs)
    add_dependencies(programs ${programs})
  endif()
  get_property(fuzzers GLOBAL PROPERTY REFRACT_FUZZERS)
  if(fuzzers)
    add_dependencies(fuzzers ${fuzzers})
  endif()
  set_property(GLOBAL PROPERTY REFRACT_PROGRAMS ${programs})
endfunction()

# refract_thread_tests(): the tests labelled `thread`, as the target `thread_tests`. REQUIRES: all tests are
# made.
function(refract_thread_tests)
  get_property(tests GLOBAL PROPERTY REFRACT_THREAD_TESTS)
  add_custom_target(thread_tests DEPENDS ${tests})
endfunction()

# refract_verbs_tests(): the tests labelled `verbs`, as the target `verbs_tests`, and in a file each with the
# seconds that it may take, for scripts/verbs-tests. REQUIRES: all tests are made.
function(refract_verbs_tests)
  get_property(tests GLOBAL PROPERTY REFRACT_VERBS_TESTS)
  add_custom_target(verbs_tests DEPENDS ${tests})
  get_property(list GLOBAL PROPERTY REFRACT_VERBS_LIST)
  file(WRITE ${CMAKE_BINARY_DIR}/verbs_tests.txt "${list}")
endfunction()
