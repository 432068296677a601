# SPDX-License-Identifier: Apache-2.0
# What `make install` puts where: the programs in bin/, librefract.so with the client and all layers under it,
# the public headers with those that they need and no others, a CMake package (find_package(refract), then
# link refract::refract) and refract.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Increased when a program built against an older librefract.so can no longer run with the new one.
set(REFRACT_ABI 0)

# What programs include; scripts/tidy/layers.py watches over what they bring along.
set(REFRACT_PUBLIC_HEADERS refract/client/transactions/batch.h
  refract/client/transactions/transaction.h refract/client/verified.h
  refract/client/async_client.h refract/client/reader.h
  refract/client/objects.h refract/client/objects_c.h)

# refract_layers_below(OUT TARGET): TARGET and every layer that it links, each once.
function(refract_layers_below out target)
  set(open ${target})
  set(found "")
  while(open)
    list(POP_FRONT open next)
    if(TARGET ${next} AND next MATCHES "^refract_" AND NOT next IN_LIST found)
      list(APPEND found ${next})
      get_target_property(links ${next} INTERFACE_LINK_LIBRARIES)
      if(links)
        list(APPEND open ${links})
      endif()
    endif()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# refract_headers_of(OUT HEADER ...): these headers and what they include of ours, as paths below the source
# folder. An installed header brings along exactly what it needs.
function(refract_headers_of out)
  set(open ${ARGN})
  set(found "")
  while(open)
    list(POP_FRONT open next)
    if(NOT next IN_LIST found)
      list(APPEND found ${next})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${next})
      file(STRINGS ${CMAKE_SOURCE_DIR}/${next} includes REGEX "^#include \"refract/")
      foreach(line ${includes})
        string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" path "${line}")
        list(APPEND open ${path})
      endforeach()
    endif()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

get_property(programs GLOBAL PROPERTY REFRACT_PROGRAMS)
list(FILTER programs EXCLUDE REGEX "example")
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

if(EXISTS ${CMAKE_SOURCE_DIR}/refract/client/client.h)
  refract_layers_below(layers refract_client)
  set(objects "")
  set(externals "")
  foreach(layer ${layers})
    get_target_property(type ${layer} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      # Exported is what REFRACT_API marks.
      set_target_properties(${layer} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
      list(APPEND objects $<TARGET_OBJECTS:${layer}>)
    endif()
    get_target_property(links ${layer} INTERFACE_LINK_LIBRARIES)
    foreach(link ${links})
      if(link AND NOT link MATCHES "^refract_")
        list(APPEND externals ${link})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES externals)

  # EXCLUDE_FROM_ALL would leave nothing to install; linking it costs a second.
  add_library(refract_shared SHARED ${objects})
  set_target_properties(refract_shared PROPERTIES OUTPUT_NAME refract EXPORT_NAME refract LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${REFRACT_ABI})
  target_link_libraries(refract_shared PRIVATE ${externals})
  # Instantiations of other libraries' templates are hidden, too.
  target_link_options(refract_shared PRIVATE LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/refract.map)
  set_target_properties(refract_shared PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/refract.map)
  if(REFRACT_SANITIZE_FLAGS)
    target_link_options(refract_shared PRIVATE ${REFRACT_SANITIZE_FLAGS})
  else()
    target_link_options(refract_shared PRIVATE LINKER:--no-undefined)
  endif()
  target_compile_features(refract_shared INTERFACE cxx_std_23)
  target_include_directories(refract_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(TARGET programs)
    add_dependencies(programs refract_shared)
  endif()

  install(TARGETS refract_shared EXPORT refract-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT refract-targets NAMESPACE refract:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/refract)
  file(WRITE ${CMAKE_BINARY_DIR}/cmake/refract-config.cmake
    "include(\"\${CMAKE_CURRENT_LIST_DIR}/refract-targets.cmake\")\n")
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/refract-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/refract-config.cmake
                ${CMAKE_BINARY_DIR}/cmake/refract-config-version.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/refract)
  file(RELATIVE_PATH REFRACT_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/refract.pc.in ${CMAKE_BINARY_DIR}/cmake/refract.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/refract.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

  refract_headers_of(headers ${REFRACT_PUBLIC_HEADERS})
  foreach(header ${headers})
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  endforeach()
endif()
