# What the GPU parts need: CUDA's runtime and NCCL, from a toolkit or from packages. No compiler for
# devices: there is no kernel of our own.
find_package(CUDAToolkit 12.0 QUIET)
if(NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR
    "DLAUNCH_CUDA is on, but no CUDA toolkit of version 12 or later was found. Install one, name its "
    "place with -DCUDAToolkit_ROOT=/usr/local/cuda, or build without GPU parts: -DDLAUNCH_CUDA=OFF.")
endif()
set(DLAUNCH_NCCL_DIR "" CACHE PATH "Where NCCL is, if not beside CUDA: has include/ and lib/")
find_path(DLAUNCH_NCCL_INCLUDE nccl.h
  HINTS "${DLAUNCH_NCCL_DIR}/include" ${CUDAToolkit_INCLUDE_DIRS})
find_library(DLAUNCH_NCCL_LIBRARY NAMES nccl libnccl.so.2
  HINTS "${DLAUNCH_NCCL_DIR}/lib" "${CUDAToolkit_LIBRARY_DIR}")
if(NOT DLAUNCH_NCCL_INCLUDE OR NOT DLAUNCH_NCCL_LIBRARY)
  message(FATAL_ERROR
    "DLAUNCH_CUDA is on and CUDA ${CUDAToolkit_VERSION} was found, but no NCCL (nccl.h and libnccl.so: "
    "'${DLAUNCH_NCCL_INCLUDE}', '${DLAUNCH_NCCL_LIBRARY}'). Install libnccl-dev, name its place with "
    "-DDLAUNCH_NCCL_DIR=…, or build without GPU parts: -DDLAUNCH_CUDA=OFF.")
endif()
file(STRINGS "${DLAUNCH_NCCL_INCLUDE}/nccl.h" DLAUNCH_NCCL_CODE
  REGEX "^#define NCCL_VERSION_CODE [0-9]+")
string(REGEX REPLACE "[^0-9]" "" DLAUNCH_NCCL_CODE "${DLAUNCH_NCCL_CODE}")
# 2.22: communicators can be ended in one call.
if(DLAUNCH_NCCL_CODE LESS 22200)
  message(FATAL_ERROR
    "${DLAUNCH_NCCL_INCLUDE}/nccl.h is NCCL ${DLAUNCH_NCCL_CODE}; the GPU parts need 2.22 (22200) or "
    "later. Install a newer one, or build without GPU parts: -DDLAUNCH_CUDA=OFF.")
endif()

add_library(dlaunch_cuda_headers INTERFACE)
target_include_directories(dlaunch_cuda_headers SYSTEM INTERFACE
  ${CUDAToolkit_INCLUDE_DIRS} "${DLAUNCH_NCCL_INCLUDE}")
add_library(dlaunch_cuda INTERFACE)
target_link_libraries(dlaunch_cuda INTERFACE dlaunch_cuda_headers "${DLAUNCH_NCCL_LIBRARY}"
  CUDA::cudart)
