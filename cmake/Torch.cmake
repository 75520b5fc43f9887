# LibTorch for the CPU, out of the wheel that scripts/setup-torch installs. The wheel's own
# find_package(Torch) asks for all of CUDA as soon as nvcc is there; two libraries are enough.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(DLAUNCH_CACHE_HOME "$ENV{XDG_CACHE_HOME}")
else()
  set(DLAUNCH_CACHE_HOME "$ENV{HOME}/.cache")
endif()
set(DLAUNCH_TORCH_DIR "${DLAUNCH_CACHE_HOME}/dlaunch/torch-2.11.0" CACHE PATH
    "Where scripts/setup-torch put the wheel of torch")

foreach(file IN ITEMS torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/include/ATen/ATen.h)
  if(NOT EXISTS "${DLAUNCH_TORCH_DIR}/${file}")
    message(FATAL_ERROR
      "LibTorch is missing: there is no ${DLAUNCH_TORCH_DIR}/${file}.\n"
      "Run scripts/setup, which installs all that dlaunch needs (scripts/setup-torch: LibTorch "
      "alone), point DLAUNCH_TORCH_DIR at a place where the wheel of torch 2.11.0 is unpacked, or "
      "build without the trainer: -DDLAUNCH_TRAINER=OFF.")
  endif()
endforeach()

add_library(dlaunch_torch INTERFACE)
target_include_directories(dlaunch_torch SYSTEM INTERFACE
  "${DLAUNCH_TORCH_DIR}/torch/include" "${DLAUNCH_TORCH_DIR}/torch/include/torch/csrc/api/include")
target_link_directories(dlaunch_torch INTERFACE "${DLAUNCH_TORCH_DIR}/torch/lib")
# libtorch_cpu.so finds the CUDA libraries that it needs through its own RPATH.
target_link_options(dlaunch_torch INTERFACE "-Wl,-rpath,${DLAUNCH_TORCH_DIR}/torch/lib")
target_link_libraries(dlaunch_torch INTERFACE torch_cpu c10)
