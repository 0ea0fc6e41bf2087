# Every library that dtrain uses; docs/architecture.md says what each is for. scripts/setup installs them.

include(FindPackageHandleStandardArgs)
find_package(Threads REQUIRED)
find_package(LibTorch REQUIRED MODULE)
find_package(MPI REQUIRED COMPONENTS C)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)  # comes with spdlog
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(TIFF 4.5 REQUIRED)

find_package(Catch2 3 QUIET)  # only for tests, which say what to do if it is missing

# DICOM, if DCMTK is installed. Its own package file requires more than these libraries.
set(DTRAIN_HAS_DCMTK TRUE)
add_library(dtrain_dcmtk INTERFACE)
find_path(DCMTK_INCLUDE dcmtk/dcmimgle/dcmimage.h)
foreach(part dcmjpeg dcmjpls dcmimage dcmimgle dcmdata oflog ofstd)
  find_library(DCMTK_${part} ${part})
  if(NOT DCMTK_INCLUDE OR NOT DCMTK_${part})
    set(DTRAIN_HAS_DCMTK FALSE)
  else()
    target_link_libraries(dtrain_dcmtk INTERFACE ${DCMTK_${part}})
  endif()
endforeach()
if(DCMTK_INCLUDE)
  target_include_directories(dtrain_dcmtk SYSTEM INTERFACE ${DCMTK_INCLUDE})
endif()

find_package(OpenSSL REQUIRED COMPONENTS Crypto)

find_path(ISAL_INCLUDE isa-l.h REQUIRED)
find_library(ISAL_LIBRARY isal REQUIRED)
add_library(dtrain_isal INTERFACE)
target_include_directories(dtrain_isal SYSTEM INTERFACE ${ISAL_INCLUDE})
target_link_libraries(dtrain_isal INTERFACE ${ISAL_LIBRARY})

find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
add_library(dtrain_json INTERFACE)
target_include_directories(dtrain_json SYSTEM INTERFACE ${NLOHMANN_JSON_INCLUDE})

find_path(CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
add_library(dtrain_cli11 INTERFACE)
target_include_directories(dtrain_cli11 SYSTEM INTERFACE ${CLI11_INCLUDE})

add_library(dtrain_yaml INTERFACE)
target_link_libraries(dtrain_yaml INTERFACE yaml-cpp)
