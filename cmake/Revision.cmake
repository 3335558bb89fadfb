# MEMORYD_BUILD_REVISION: MEMORYD_REVISION if that is given, as images do for one hash of one commit; else what git
# says of this folder when CMake runs.
set(MEMORYD_REVISION "" CACHE STRING "The commit that is built; empty: what git says when CMake runs")
set(MEMORYD_BUILD_REVISION "${MEMORYD_REVISION}")
# Not of a repository that this folder only lies in.
if(NOT MEMORYD_BUILD_REVISION AND EXISTS "${PROJECT_SOURCE_DIR}/.git")
  execute_process(
    COMMAND git describe --always --dirty --abbrev=40 --exclude=*
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE MEMORYD_BUILD_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT MEMORYD_BUILD_REVISION)
  set(MEMORYD_BUILD_REVISION unknown)
endif()
