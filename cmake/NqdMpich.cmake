# Finds MPICH beside the MPI that nqd is built with: the tests run with both. Sets NQD_MPICH_FOUND,
# the target nqd_mpich_library and NQD_MPICH_MPIEXEC. Debian and Ubuntu install the two side by side
# (packages mpich and libmpich-dev); FindMPI knows one MPI a project.
set(NQD_MPICH_FOUND FALSE)
if(NOT NQD_BUILD_TESTS OR NOT NQD_WITH_MPI OR NQD_MPICH_TESTS STREQUAL "OFF")
  return()
endif()
find_path(NQD_MPICH_INCLUDE_DIR NAMES mpi.h PATH_SUFFIXES mpich)
find_library(NQD_MPICH_LIBRARY NAMES mpich)
find_program(NQD_MPICH_MPIEXEC NAMES mpiexec.mpich mpiexec.hydra)
if(NQD_MPICH_INCLUDE_DIR AND NQD_MPICH_LIBRARY AND NQD_MPICH_MPIEXEC)
  file(STRINGS ${NQD_MPICH_INCLUDE_DIR}/mpi.h version REGEX "define MPICH_VERSION " LIMIT_COUNT 1)
  if(version)
    set(NQD_MPICH_FOUND TRUE)
  endif()
endif()
if(NQD_MPICH_FOUND)
  add_library(nqd_mpich_library INTERFACE)
  target_include_directories(nqd_mpich_library SYSTEM INTERFACE ${NQD_MPICH_INCLUDE_DIR})
  target_link_libraries(nqd_mpich_library INTERFACE ${NQD_MPICH_LIBRARY})
elseif(NQD_MPICH_TESTS STREQUAL "ON")
  message(FATAL_ERROR "NQD_MPICH_TESTS=ON, but MPICH was not found: install mpich and "
                      "libmpich-dev, or configure with AUTO or OFF")
endif()
