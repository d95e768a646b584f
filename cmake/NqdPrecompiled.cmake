# Headers that many files include, parsed once where a build is timed (NQD_PRECOMPILED_HEADERS, which
# .ci/run sets). A file must not rely on that: it includes what it uses, and every other build
# compiles without.
set(nqd_precompiled_standard <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable>
  <cstddef> <cstdint> <cstring> <filesystem> <fstream> <functional> <future> <map> <memory> <mutex>
  <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <vector>)

# GCC forgets of a precompiled header that it is the system's, and shows the false alarms in it that
# it keeps to itself otherwise.
if(NQD_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  nqd_cxx_options(-Wno-stringop-overflow -Wno-array-bounds -Wno-stringop-overread)
endif()

# nqd_precompile(TARGET KIND [LINK targets] [OPTIONS options] [HEADERS headers]): the targets of one
# kind share one file, and so have to be compiled with the same options; a source with options of its
# own needs SKIP_PRECOMPILE_HEADERS.
function(nqd_precompile target kind)
  if(NOT NQD_PRECOMPILED_HEADERS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LINK;OPTIONS;HEADERS" ${ARGN})
  set(owner nqd_precompiled_${kind})
  if(NOT TARGET ${owner})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${owner}.cpp CONTENT "")
    add_library(${owner} OBJECT ${PROJECT_BINARY_DIR}/${owner}.cpp)
    target_link_libraries(${owner} PRIVATE nqd_options ${ARG_LINK})
    target_compile_options(${owner} PRIVATE ${ARG_OPTIONS})
    target_precompile_headers(${owner} PRIVATE ${nqd_precompiled_standard} ${ARG_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
