# Every library dtrain stands on; docs/architecture.md says why each is here. scripts/setup installs them.

include(FindPackageHandleStandardArgs)
find_package(Threads REQUIRED)
find_package(LibTorch REQUIRED MODULE)
find_package(MPI REQUIRED COMPONENTS C)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(TIFF 4.5 REQUIRED)
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
