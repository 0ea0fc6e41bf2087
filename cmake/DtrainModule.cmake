# dtrain_module(NAME SOURCES a.cpp … [USES module …] [LIBS target …] [TORCH])
#   One static library per folder of lib/dtrain. USES names the lower modules it may include (tests/repo checks the
#   #include lines against the table in docs/architecture.md). LIBS stay private. TORCH: sees LibTorch's headers,
#   through one shared precompiled header.
function(dtrain_module name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;USES;LIBS" ${ARGN})
  add_library(dtrain_${name} STATIC ${arg_SOURCES})
  target_include_directories(dtrain_${name} PUBLIC ${CMAKE_SOURCE_DIR}/lib)
  foreach(used ${arg_USES})
    target_link_libraries(dtrain_${name} PUBLIC dtrain_${used})
  endforeach()
  target_link_libraries(dtrain_${name} PRIVATE ${arg_LIBS})
  if(arg_TORCH)
    dtrain_use_torch(dtrain_${name})
  endif()
endfunction()

# LibTorch's headers cost 8 to 25 s a file; parsed once here, every target that includes them reuses the result.
add_library(dtrain_torch_pch STATIC ${CMAKE_SOURCE_DIR}/cmake/torch_pch.cpp)
target_link_libraries(dtrain_torch_pch PUBLIC LibTorch::cpu)
target_precompile_headers(dtrain_torch_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/torch_pch.hpp)
target_compile_options(dtrain_torch_pch PRIVATE -Wno-error)

function(dtrain_use_torch target)
  target_link_libraries(${target} PUBLIC LibTorch::cpu)
  target_precompile_headers(${target} REUSE_FROM dtrain_torch_pch)
  set_property(TARGET ${target} PROPERTY JOB_POOL_COMPILE torch_compile)
endfunction()

# The build tree finds LibTorch and the CUDA runtime it needs by RUNPATH. A bundle's own search path is written over it
# (cmake/bundle/libraries.py), for which slashes make room; they change nothing. CMake, where it is to replace a path at
# installation, makes room by colons, and what stands between two of them is the working directory: so no target is
# installed by install(TARGETS), which would, and none has an INSTALL_RPATH.
set(CMAKE_BUILD_RPATH ${LibTorch_RUNTIME_DIRS})
string(LENGTH "${CMAKE_BUILD_RPATH}" length)
if(length LESS 32)
  string(REPEAT / 32 slashes)
  string(APPEND CMAKE_BUILD_RPATH ${slashes})
endif()

# dtrain_bundle_test(NAME TARGET SECONDS RANKS [argument …]): a bundle runs this test too (share/dtrain/run_tests), under its
# mpirun unless RANKS is 0. An exit code of 4 means that all of it was skipped.
function(dtrain_bundle_test name target seconds ranks)
  list(JOIN ARGN " " arguments)
  set_property(GLOBAL APPEND PROPERTY DTRAIN_BUNDLE_TEST_PROGRAMS ${target})
  set_property(GLOBAL APPEND PROPERTY DTRAIN_BUNDLE_TESTS "${name} ${seconds} ${ranks} ${target} ${arguments}")
endfunction()

# dtrain_test(NAME SOURCES … USES module … [TORCH] [TIMEOUT s] [NOT_IN_BUNDLE]): a Catch2 program, one CTest entry, label unit.
function(dtrain_test name)
  cmake_parse_arguments(arg "TORCH;NOT_IN_BUNDLE" "TIMEOUT" "SOURCES;USES;LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE dtrain_catch_main ${arg_LIBS})
  foreach(used ${arg_USES})
    target_link_libraries(test_${name} PRIVATE dtrain_${used})
  endforeach()
  if(arg_TORCH)
    dtrain_use_torch(test_${name})
  endif()
  add_test(NAME unit.${name} COMMAND test_${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 4
    ENVIRONMENT DTRAIN_SOURCE_DIR=${CMAKE_SOURCE_DIR})
  if(NOT arg_NOT_IN_BUNDLE)
    dtrain_bundle_test(unit.${name} test_${name} ${arg_TIMEOUT} 0)
  endif()
endfunction()

# dtrain_mpi_test(NAME SOURCES … USES … RANKS 2 3 4 [NETWORK 3]): the same program under mpirun, one CTest entry per rank
# count; for the counts of NETWORK once more with the argument "network".
function(dtrain_mpi_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;USES;RANKS;NETWORK;LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(test_mpi_${name} ${arg_SOURCES})
  target_include_directories(test_mpi_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_mpi_${name} PRIVATE dtrain_catch ${arg_LIBS})
  foreach(used ${arg_USES})
    target_link_libraries(test_mpi_${name} PRIVATE dtrain_${used})
  endforeach()
  dtrain_use_torch(test_mpi_${name})
  set(runs ${arg_RANKS})
  foreach(ranks ${arg_NETWORK})
    list(APPEND runs "${ranks} network")
  endforeach()
  foreach(run ${runs})
    separate_arguments(words UNIX_COMMAND "${run}")
    list(POP_FRONT words ranks)
    list(JOIN words . suffix)
    set(test_name mpi.${name}.${ranks})
    if(suffix)
      string(APPEND test_name .${suffix})
    endif()
    add_test(NAME ${test_name} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -np ${ranks}
                                       $<TARGET_FILE:test_mpi_${name}> ${words})
    set_tests_properties(${test_name} PROPERTIES LABELS mpi TIMEOUT ${arg_TIMEOUT} PROCESSORS 2
      ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
    dtrain_bundle_test(${test_name} test_mpi_${name} ${arg_TIMEOUT} ${ranks} ${words})
  endforeach()
endfunction()

# dtrain_vector_code(FILE): plain C++ loops over many floats, free of LibTorch, that the compiler vectorises. Functions
# marked DTRAIN_VECTOR_CLONES are compiled once for each vector width, where it can be chosen at run time (x86-64 with
# GNU ifunc; not under sanitizers, which are not yet awake when it is chosen). All give the same bits: nothing is fused.
# A square root is an instruction only if it need not set errno.
include(CheckCXXSourceCompiles)
set(DTRAIN_VECTOR_CLONES "__attribute__((target_clones(\"avx512f\", \"avx2\", \"default\")))")
check_cxx_source_compiles("${DTRAIN_VECTOR_CLONES} int twice(int x) { return 2 * x; } int main() { return twice(0); }"
                          DTRAIN_HAS_VECTOR_CLONES)
if(NOT DTRAIN_HAS_VECTOR_CLONES OR DTRAIN_SANITIZE)
  set(DTRAIN_VECTOR_CLONES "")
endif()
function(dtrain_vector_code file)
  set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS -O3 -fno-math-errno -fno-trapping-math)
  set_property(SOURCE ${file} APPEND PROPERTY COMPILE_DEFINITIONS "DTRAIN_VECTOR_CLONES=${DTRAIN_VECTOR_CLONES}")
endfunction()
