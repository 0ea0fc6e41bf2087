# The stamps of the modules. A module shares these headers with the program, the GPU module also C++ classes. The stamp
# identifies the state of what is shared, so that a module of another build is refused
# (lib/dtrain/base/module_file.hpp).
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
