# One interface target carries the compile options of every nqd target; nothing is set globally.
add_library(nqd_options INTERFACE)
target_include_directories(nqd_options INTERFACE ${PROJECT_SOURCE_DIR})
function(nqd_cxx_options)
  foreach(option ${ARGN})
    target_compile_options(nqd_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()
nqd_cxx_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
# GCC 12 sees overlapping copies in `"literal" + std::string` that are not there (GCC bug 105651),
# and uninitialised strings in initializer lists (GCC bug 105562).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  nqd_cxx_options(-Wno-restrict -Wno-maybe-uninitialized)
endif()
if(NQD_WARNINGS_AS_ERRORS)
  nqd_cxx_options(-Werror)
endif()
if(NQD_NATIVE)
  nqd_cxx_options(-march=native)
endif()
# No contraction or reassociation choice may differ between two builds of one source: a + b * c is
# written as std::fma where it is wanted.
nqd_cxx_options(-ffp-contract=off)
if(NQD_SANITIZE STREQUAL "address")
  nqd_cxx_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nqd_options INTERFACE -fsanitize=address,undefined)
elseif(NQD_SANITIZE STREQUAL "thread")
  nqd_cxx_options(-fsanitize=thread)
  target_link_options(nqd_options INTERFACE -fsanitize=thread)
endif()

if(NQD_WITH_CUDA)
  # The host part of a .cu file is compiled by the same compiler with the same warnings, except
  # -Wpedantic: what nvcc generates around the source does not pass it.
  set(nqd_cuda_options
    --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wshadow,-Wnon-virtual-dtor)
  if(NQD_WARNINGS_AS_ERRORS)
    list(APPEND nqd_cuda_options --Werror=all-warnings -Xcompiler=-Werror)
  endif()
  foreach(option ${nqd_cuda_options})
    target_compile_options(nqd_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:${option}>)
  endforeach()
endif()

if(NQD_WITH_OPENMP)
  # Lets Eigen's products use several threads; OpenBLAS and oneDNN bring their own.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(nqd_options INTERFACE OpenMP::OpenMP_CXX)
endif()

find_package(Threads REQUIRED)

# What parses flags and writes reports runs once in a command: optimising it further costs a third of
# its build time and gains nothing.
set(nqd_glue_options $<$<CONFIG:Release,RelWithDebInfo>:-O1>)

# nqd_add_library(NAME SOURCES a.cpp ... [LINK public targets] [PRIVATE private targets] [GLUE]
#                 [OWN_FLAGS])
# OWN_FLAGS: files of it are compiled with flags that tell them apart from other libraries.
function(nqd_add_library target)
  cmake_parse_arguments(ARG "GLUE;OWN_FLAGS" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_link_libraries(${target} PUBLIC nqd_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
  if(ARG_GLUE)
    nqd_optimize_as_glue(${target})
  elseif(NOT ARG_OWN_FLAGS)
    nqd_precompile(${target} library)
  endif()
endfunction()

function(nqd_optimize_as_glue target)
  target_compile_options(${target} PRIVATE ${nqd_glue_options})
  nqd_precompile(${target} glue OPTIONS ${nqd_glue_options})
endfunction()
