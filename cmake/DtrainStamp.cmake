# What the modules are built as. The program and a module share these headers, and with the GPU module C++ classes: a stamp
# names the state of what they share, so that one refuses the other of another build (lib/dtrain/base/module_file.hpp).
function(dtrain_stamp variable others)
  foreach(header ${ARGN})
    set(path ${CMAKE_SOURCE_DIR}/lib/dtrain/${header}.hpp)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(SHA256 ${path} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 hash "${hashes} ${others}")
  string(SUBSTRING ${hash} 0 12 hash)
  set(${variable} "${PROJECT_VERSION}-${hash}" PARENT_SCOPE)
endfunction()

dtrain_stamp(DTRAIN_BUILD_STAMP "${LibTorch_VERSION} ${CMAKE_BUILD_TYPE}" device/device_graph device/flat_math device/gpu_module
             device/nccl_api device/picture_rules device/update_rules base/error base/shards)
dtrain_stamp(DTRAIN_DICOM_STAMP "${CMAKE_BUILD_TYPE}" io/pictures/dicom_module)
