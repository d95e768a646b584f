# One interface target carries the compile options of every nqd target; nothing is set globally.
add_library(nqd_options INTERFACE)
target_include_directories(nqd_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(nqd_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
# GCC 12 sees overlapping copies in `"literal" + std::string` that are not there (GCC bug 105651),
# and uninitialised strings in initializer lists (GCC bug 105562).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(nqd_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(NQD_WARNINGS_AS_ERRORS)
  target_compile_options(nqd_options INTERFACE -Werror)
endif()
if(NQD_NATIVE)
  target_compile_options(nqd_options INTERFACE -march=native)
endif()
# No contraction or reassociation choice may differ between two builds of one source: a + b * c is
# written as std::fma where it is wanted.
target_compile_options(nqd_options INTERFACE -ffp-contract=off)
if(NQD_SANITIZE STREQUAL "address")
  target_compile_options(nqd_options INTERFACE -fsanitize=address,undefined
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nqd_options INTERFACE -fsanitize=address,undefined)
elseif(NQD_SANITIZE STREQUAL "thread")
  target_compile_options(nqd_options INTERFACE -fsanitize=thread)
  target_link_options(nqd_options INTERFACE -fsanitize=thread)
endif()

if(NQD_WITH_OPENMP)
  # Lets Eigen's products use several threads; OpenBLAS and oneDNN bring their own.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(nqd_options INTERFACE OpenMP::OpenMP_CXX)
endif()

find_package(Threads REQUIRED)

# nqd_add_library(NAME SOURCES a.cpp ... [LINK public targets] [PRIVATE private targets])
function(nqd_add_library target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_link_libraries(${target} PUBLIC nqd_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
endfunction()
