# Finds the headers of cuDNN and of its front end (cudnn_frontend.h, headers alone). Sets
# NQD_CUDNN_FOUND and the target nqd_cudnn_headers. The library itself is opened when the program
# runs: no build needs it.
set(NQD_CUDNN_FOUND FALSE)
if(NQD_WITH_CUDNN STREQUAL "OFF")
  return()
endif()
find_path(CUDNN_FRONTEND_INCLUDE_DIR NAMES cudnn_frontend.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(CUDNN_INCLUDE_DIR NAMES cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
          PATH_SUFFIXES x86_64-linux-gnu)
if(CUDNN_FRONTEND_INCLUDE_DIR AND CUDNN_INCLUDE_DIR)
  set(NQD_CUDNN_FOUND TRUE)
  add_library(nqd_cudnn_headers INTERFACE)
  target_include_directories(nqd_cudnn_headers SYSTEM INTERFACE
    ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(nqd_cudnn_headers INTERFACE
    NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING CUDNN_FRONTEND_SKIP_JSON_LIB)
elseif(NQD_WITH_CUDNN STREQUAL "ON")
  message(FATAL_ERROR "NQD_WITH_CUDNN=ON, but cudnn_frontend.h or cudnn.h was not found: install "
                      "cuDNN's development package and its front end, set -DCUDNN_INCLUDE_DIR and "
                      "-DCUDNN_FRONTEND_INCLUDE_DIR, or configure with AUTO or OFF")
endif()
