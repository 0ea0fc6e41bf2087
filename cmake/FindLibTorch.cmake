# Finds LibTorch as the PyPI wheel `torch` or the libtorch zip lay it out.
#
# The wheel's own TorchConfig.cmake insists on a CUDA toolkit, so this module makes the targets itself:
#   LibTorch::cpu      c10, torch_cpu and the headers
#   LibTorch::threads  what at::parallel_for needs to be compiled with
#   LibTorch::cuda     its CUDA part too, if there is one: only for the GPU module
# Where it looks, in this order: -DDTRAIN_TORCH=DIR or the environment's DTRAIN_TORCH (the folder with include/ and
# lib/), then what scripts/setup unpacked into ${DTRAIN_CACHE:-~/.cache/dtrain}. Sets LibTorch_VERSION, LibTorch_DIR.
# Accepts 2.6 and newer with the C++11 ABI; 2.11.0 is what is tested.

if(NOT "$ENV{DTRAIN_TORCH}" STREQUAL "" AND NOT DTRAIN_TORCH)
  set(DTRAIN_TORCH $ENV{DTRAIN_TORCH})
endif()
if(NOT "$ENV{DTRAIN_CACHE}" STREQUAL "")
  set(dtrain_cache $ENV{DTRAIN_CACHE})
else()
  set(dtrain_cache $ENV{HOME}/.cache/dtrain)
endif()
if(NOT DTRAIN_TORCH AND EXISTS ${dtrain_cache}/torch-2.11.0/torch/lib/libtorch_cpu.so)
  set(DTRAIN_TORCH ${dtrain_cache}/torch-2.11.0/torch)
endif()
if(NOT DTRAIN_TORCH)
  if(EXISTS /usr/include/torch/csrc/api/include/torch/version.h)
    message(FATAL_ERROR "Debian's libtorch-dev is too old for dtrain (1.13; 2.6 or newer is needed, 2.11.0 is tested). "
                        "Run scripts/setup, or set DTRAIN_TORCH to the folder of a newer LibTorch.")
  endif()
  message(FATAL_ERROR "LibTorch not found. Run scripts/setup, or set DTRAIN_TORCH to the folder that holds its include/ and lib/.")
endif()
get_filename_component(DTRAIN_TORCH ${DTRAIN_TORCH} ABSOLUTE)
set(DTRAIN_TORCH ${DTRAIN_TORCH} CACHE PATH "Folder of LibTorch, with include/ and lib/" FORCE)

if(NOT DTRAIN_TORCH STREQUAL "${LibTorch_LOOKED_IN}")  # another folder than last time: forget what was found there
  unset(LibTorch_CPU CACHE)
  unset(LibTorch_C10 CACHE)
  unset(LibTorch_INCLUDE CACHE)
  unset(NCCL_INCLUDE CACHE)  # DtrainCuda.cmake looks beside it
  unset(NCCL_LIBRARY CACHE)
  unset(CUDA_RUNTIME_INCLUDE CACHE)
endif()
set(LibTorch_LOOKED_IN ${DTRAIN_TORCH} CACHE INTERNAL "")
find_library(LibTorch_CPU torch_cpu PATHS ${DTRAIN_TORCH}/lib ${DTRAIN_TORCH}/lib/x86_64-linux-gnu NO_DEFAULT_PATH)
find_library(LibTorch_C10 c10 PATHS ${DTRAIN_TORCH}/lib ${DTRAIN_TORCH}/lib/x86_64-linux-gnu NO_DEFAULT_PATH)
find_path(LibTorch_INCLUDE ATen/ATen.h PATHS ${DTRAIN_TORCH}/include NO_DEFAULT_PATH)
if(NOT LibTorch_CPU OR NOT LibTorch_C10 OR NOT LibTorch_INCLUDE)
  message(FATAL_ERROR "DTRAIN_TORCH=${DTRAIN_TORCH} is no LibTorch: include/ATen/ATen.h or lib/libtorch_cpu.so is missing there.")
endif()

foreach(candidate ${LibTorch_INCLUDE}/torch/headeronly/version.h ${LibTorch_INCLUDE}/torch/csrc/api/include/torch/version.h)
  if(EXISTS ${candidate} AND NOT LibTorch_VERSION)
    file(STRINGS ${candidate} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
    foreach(line ${lines})
      if(line MATCHES "TORCH_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)")
        set(torch_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
      endif()
    endforeach()
    if(DEFINED torch_MAJOR)
      set(LibTorch_VERSION ${torch_MAJOR}.${torch_MINOR}.${torch_PATCH})
    endif()
  endif()
endforeach()
if(NOT LibTorch_VERSION)
  message(FATAL_ERROR "No version found in the headers of ${DTRAIN_TORCH}; LibTorch 2.6 or newer is needed (2.11.0 is tested).")
endif()
if(LibTorch_VERSION VERSION_LESS 2.6)
  message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${DTRAIN_TORCH} is too old: 2.6 or newer is needed, 2.11.0 is tested. "
                      "Debian's libtorch-dev is 1.13 and cannot be used. Run scripts/setup to fetch 2.11.0.")
endif()

# The wheel links libcudart and libcupti even for CPU work. They are beside it (nvidia/*/lib of the wheels),
# or in a CUDA toolkit.
set(LibTorch_RUNTIME_DIRS ${DTRAIN_TORCH}/lib)
file(GLOB nvidia_dirs ${DTRAIN_TORCH}/../nvidia/*/lib)
list(APPEND LibTorch_RUNTIME_DIRS ${nvidia_dirs})
foreach(toolkit /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 /usr/local/cuda/targets/x86_64-linux/lib)
  if(EXISTS ${toolkit})
    list(APPEND LibTorch_RUNTIME_DIRS ${toolkit})
  endif()
endforeach()

# The ABI is read from the library itself: c10 exports this name only under the C++11 ABI.
execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${LibTorch_C10} OUTPUT_VARIABLE c10_symbols ERROR_QUIET)
if(c10_symbols AND NOT c10_symbols MATCHES "__cxx11")
  message(FATAL_ERROR "LibTorch in ${DTRAIN_TORCH} was built with CXX11_ABI=0 and cannot be linked with Debian's C++ libraries. "
                      "Run scripts/setup to fetch the PyPI build of 2.11.0.")
endif()

set(LibTorch_DIR ${DTRAIN_TORCH})
if(NOT TARGET LibTorch::cpu)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION ${LibTorch_C10})
  get_filename_component(lib_dir ${LibTorch_CPU} DIRECTORY)
  file(GLOB openmp ${lib_dir}/libgomp*.so*)  # its own, which has the threads that its operators run on
  if(NOT openmp)
    set(openmp gomp)
  endif()
  add_library(LibTorch::cpu SHARED IMPORTED)
  set_target_properties(LibTorch::cpu PROPERTIES
    IMPORTED_LOCATION ${LibTorch_CPU}
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE};${LibTorch_INCLUDE}/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS AT_PER_OPERATOR_HEADERS  # its headers include the operators they use, in place of all
    INTERFACE_LINK_LIBRARIES "LibTorch::c10;${openmp}")
  foreach(dir ${LibTorch_RUNTIME_DIRS})
    target_link_options(LibTorch::cpu INTERFACE -Wl,-rpath-link,${dir})
  endforeach()
  # at::parallel_for is a template: without this it takes one thread.
  add_library(LibTorch::threads INTERFACE IMPORTED)
  target_compile_options(LibTorch::threads INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fopenmp>)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    message(STATUS "Layers of dtrain's own take one thread: only GCC shares LibTorch's threads.")
  endif()
  if(EXISTS ${lib_dir}/libtorch_cuda.so)
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    # Linked although no symbol of it is used: LibTorch gets its GPU operators when this library is loaded.
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu -Wl,--no-as-needed ${lib_dir}/libtorch_cuda.so
                          ${lib_dir}/libc10_cuda.so -Wl,--as-needed)
  endif()
endif()
set(LibTorch_FOUND TRUE)
