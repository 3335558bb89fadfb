# How a target of this repository is declared: include root, warnings, sanitizers, labels.
#
#   memoryd_library(name [SOURCES file...] [DEPS target...] [PRIVATE_DEPS target...] [COMPUTES])
#     Static library memoryd_<name>, alias memoryd::<name>; without a source file that is compiled
#     it is an INTERFACE library. Files are included from the repository's root. One that COMPUTES is
#     optimized in every preset: its tests take minutes otherwise.
#   memoryd_executable(name SOURCES file... [DEPS target...])
#     Executable <name> in <build>/bin.
#   memoryd_test(name SOURCES file... [DEPS target...] [LABELS label...] [ARGS arg...]
#                [ENVIRONMENT VAR=value...] [TIMEOUT seconds])
#     GoogleTest executable <name> with gmock's main, run as one ctest entry. LABELS default to
#     `unit`, TIMEOUT to 120; a sanitizer gets four times as long. The target `unit_tests` builds all
#     that are labelled `unit`.
#   memoryd_precompiled(name HEADERS header... [DEPS target...])
#     Headers of others, beside those that nearly every source reads, compiled once for the libraries
#     of this folder and those below it, and once for their tests: a sixth of what a build takes.
#   memoryd_script_test(name COMMAND command... [LABELS ...] [ENVIRONMENT ...] [TIMEOUT ...])
#     Any other command as a ctest entry, run in the repository's root.

# Under test is our own code, compiled with all sanitizers. Tests and generated code (targets with the
# property MEMORYD_AROUND_TESTED) do without the undefined-behaviour checks, which take time to compile.
# Fuzzers run what is generated on every input: there its paths count too.
add_library(memoryd_sanitizers INTERFACE)
if(MEMORYD_SANITIZE)
  set(tested "${MEMORYD_SANITIZE}")
  if(MEMORYD_FUZZ)
    string(APPEND tested ",fuzzer-no-link")
  endif()
  string(REPLACE ",undefined" "" around "${tested}")
  string(REPLACE "," "$<COMMA>" around "${around}")
  string(REPLACE "," "$<COMMA>" tested "${tested}")
  set(is_around $<BOOL:$<TARGET_PROPERTY:MEMORYD_AROUND_TESTED>>)
  target_compile_options(memoryd_sanitizers INTERFACE
    -fsanitize=$<IF:${is_around},${around},${tested}>
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Checked at every access, these take a third of the time that the build takes. A null pointer that
  # is read ends the process anyway; processors that we build for read what is not aligned.
  if(MEMORYD_SANITIZE MATCHES undefined AND NOT MEMORYD_FUZZ)
    target_compile_options(memoryd_sanitizers INTERFACE
      $<$<NOT:${is_around}>:-fno-sanitize=null$<COMMA>alignment$<COMMA>vptr$<COMMA>object-size$<COMMA>nonnull-attribute$<COMMA>returns-nonnull-attribute>)
  endif()
  if(MEMORYD_FUZZ)
    # To trace comparisons takes half of an execution's time; words are in dictionaries.
    target_compile_options(memoryd_sanitizers INTERFACE -fno-sanitize-coverage=trace-cmp)
  endif()
  if(MEMORYD_SANITIZE MATCHES thread)
    # ThreadSanitizer knows no fences; Asio's locks order the same.
    target_compile_definitions(memoryd_sanitizers INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
  target_compile_definitions(memoryd_sanitizers INTERFACE MEMORYD_SANITIZED)
  target_link_options(memoryd_sanitizers INTERFACE -fsanitize=${MEMORYD_SANITIZE})
endif()

add_library(memoryd_warnings INTERFACE)
target_compile_options(memoryd_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 and 13 see overlapping copies in std::string concatenation where there are none (PR 105651).
  target_compile_options(memoryd_warnings INTERFACE -Wno-restrict)
endif()
if(MEMORYD_WERROR)
  target_compile_options(memoryd_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(memoryd_warnings INTERFACE -Wthread-safety -Werror=thread-safety)
endif()

# glibc warns of checked buffers without optimization.
set(memoryd_unoptimized -O0 -U_FORTIFY_SOURCE)

set(MEMORYD_TEST_RESULTS ${PROJECT_BINARY_DIR}/test-results)

set(memoryd_common_headers
  <algorithm> <atomic> <chrono> <deque> <functional> <map> <memory> <optional> <set> <span> <string>
  <string_view> <thread> <unordered_map> <utility> <variant> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
  <absl/synchronization/mutex.h> <fmt/format.h>)
set(memoryd_common_deps absl::statusor absl::synchronization fmt::fmt)

# An empty source for targets that have only what they make of headers.
set(memoryd_nothing ${PROJECT_BINARY_DIR}/nothing.cc)
file(CONFIGURE OUTPUT ${memoryd_nothing} CONTENT "")

macro(memoryd_precompiled name)
  # For ccache.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  else()
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
  _memoryd_precompiled(${name} ${ARGN})
  set(MEMORYD_PRECOMPILED memoryd_${name}_headers)
  cmake_parse_arguments(MEMORYD_PRECOMPILED "" "" "HEADERS;DEPS" ${ARGN})
  list(PREPEND MEMORYD_PRECOMPILED_DEPS ${memoryd_common_deps})
endmacro()

function(_memoryd_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "HEADERS;DEPS")
  list(PREPEND ARG_HEADERS ${memoryd_common_headers})
  list(PREPEND ARG_DEPS ${memoryd_common_deps})
  set(target memoryd_${name}_headers)
  add_library(${target} OBJECT ${memoryd_nothing})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} memoryd_sanitizers memoryd_warnings)
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
  if(BUILD_TESTING)
    add_library(${target}_test OBJECT ${memoryd_nothing})
    target_link_libraries(${target}_test PRIVATE
      ${ARG_DEPS} GTest::gmock_main memoryd_sanitizers memoryd_warnings)
    target_compile_options(${target}_test PRIVATE ${memoryd_unoptimized})
    set_target_properties(${target}_test PROPERTIES MEMORYD_AROUND_TESTED ON)
    target_precompile_headers(${target}_test PRIVATE
      ${ARG_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endfunction()

function(memoryd_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "COMPUTES" "" "SOURCES;DEPS;PRIVATE_DEPS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "memoryd_library(${name}): unknown ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  set(target memoryd_${name})
  set(compiled ${ARG_SOURCES})
  list(FILTER compiled INCLUDE REGEX "\\.cc$")
  if(compiled)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target}
      PUBLIC ${ARG_DEPS} memoryd_sanitizers
      PRIVATE ${ARG_PRIVATE_DEPS} memoryd_warnings)
    if(ARG_COMPUTES AND CMAKE_BUILD_TYPE STREQUAL "Debug")
      # Without the precompiled headers, which are of another level.
      target_compile_options(${target} PRIVATE -O1)
    elseif(MEMORYD_PRECOMPILED)
      target_precompile_headers(${target} REUSE_FROM ${MEMORYD_PRECOMPILED})
      target_link_libraries(${target} PRIVATE ${MEMORYD_PRECOMPILED_DEPS})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${ARG_DEPS} memoryd_sanitizers)
  endif()
  add_library(memoryd::${name} ALIAS ${target})
endfunction()

function(memoryd_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "memoryd_executable(${name}): unknown ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} memoryd_sanitizers memoryd_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

add_custom_target(unit_tests)

# Sets what every ctest entry has in common, from the caller's parsed ARG_ variables.
macro(_memoryd_test_properties name)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(MEMORYD_SANITIZE)
    # What is slow under a sanitizer has not hung.
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  # The JUnit file of each entry lets the summary count test cases rather than executables.
  set_tests_properties(${name} PROPERTIES
    LABELS "${ARG_LABELS}"
    TIMEOUT "${ARG_TIMEOUT}"
    ENVIRONMENT "GTEST_OUTPUT=xml:${MEMORYD_TEST_RESULTS}/${name}.xml;${ARG_ENVIRONMENT}")
endmacro()

function(memoryd_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS;ARGS;ENVIRONMENT")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "memoryd_test(${name}): unknown ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE
    ${ARG_DEPS} GTest::gmock_main memoryd_sanitizers memoryd_warnings)
  # As above: what is under test is optimized, the test is soon run and often built.
  target_compile_options(${name} PRIVATE ${memoryd_unoptimized})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin
    MEMORYD_AROUND_TESTED ON)
  if(MEMORYD_PRECOMPILED)
    target_precompile_headers(${name} REUSE_FROM ${MEMORYD_PRECOMPILED}_test)
    target_link_libraries(${name} PRIVATE ${MEMORYD_PRECOMPILED_DEPS})
  endif()
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  _memoryd_test_properties(${name})
  if("unit" IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
endfunction()

function(memoryd_script_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "memoryd_script_test(${name}): unknown ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  _memoryd_test_properties(${name})
endfunction()
