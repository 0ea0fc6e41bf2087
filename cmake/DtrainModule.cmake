# Headers are what makes a build slow: LibTorch's take 10 s to parse, Catch2's and the standard library's nearly 1 s.
# Each of four sets (cmake/precompiled) is parsed once, and every file starts from the one that fits it.
function(dtrain_precompiled name)
  add_library(dtrain_precompiled_${name} STATIC ${CMAKE_SOURCE_DIR}/cmake/precompiled/carrier.cpp)
  target_include_directories(dtrain_precompiled_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(dtrain_precompiled_${name} PRIVATE ${ARGN})
  target_precompile_headers(dtrain_precompiled_${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled/${name}.hpp)
endfunction()
dtrain_precompiled(code)
dtrain_precompiled(code_torch LibTorch::cpu LibTorch::threads)
if(BUILD_TESTING)
  dtrain_precompiled(test $<TARGET_NAME_IF_EXISTS:Catch2::Catch2>)
  dtrain_precompiled(test_torch LibTorch::cpu LibTorch::threads $<TARGET_NAME_IF_EXISTS:Catch2::Catch2>)
endif()

# dtrain_part(TARGET PART FILE …): more files of a target, compiled as its own are, but for what is set for TARGET_PART.
function(dtrain_part target part)
  set(files ${target}_${part})
  add_library(${files} OBJECT ${ARGN})
  target_include_directories(${files} PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_compile_definitions(${files} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  target_compile_options(${files} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_OPTIONS>)
  target_link_libraries(${files} PRIVATE $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${files}>)
endfunction()

# dtrain_sources(TARGET SET [COLD] [TORCH file …]): how a target's files are compiled. They start from the precompiled
# header SET (code or test), those of TORCH from SET_torch: only they see LibTorch's headers, and only as many of them
# are compiled at once as there is memory for. COLD: with -Og, which takes little more than half the time of -O2 to compile; for
# code that runs seldom or leaves the work to others, and for the tests' own.
function(dtrain_sources target set)
  cmake_parse_arguments(PARSE_ARGV 2 arg "COLD" "" "TORCH")
  if(arg_COLD OR set STREQUAL test)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
  endif()
  target_precompile_headers(${target} REUSE_FROM dtrain_precompiled_${set})
  if(arg_TORCH)
    dtrain_part(${target} torch ${arg_TORCH})
    target_link_libraries(${target}_torch PRIVATE LibTorch::cpu LibTorch::threads)
    target_precompile_headers(${target}_torch REUSE_FROM dtrain_precompiled_${set}_torch)
    set_property(TARGET ${target}_torch PROPERTY JOB_POOL_COMPILE torch_compile)
    target_link_libraries(${target} PUBLIC LibTorch::cpu)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
endfunction()

# dtrain_unity(TARGET [N]): the files of this target are compiled N at a time as one, eight if not said, so that they share
# the cost of their headers and of the templates that they use. Not in debug builds, where debuggers and editors need the
# files as they are.
# No two files of a module, or of its tests, may use one name for two local things (tests/repo/style_test.py).
set(DTRAIN_UNITY "" CACHE STRING "Compile several files of a module as one: ON, OFF, or empty: in Release builds alone")
function(dtrain_unity target)
  set(unity "${DTRAIN_UNITY}")
  if(unity STREQUAL "" AND CMAKE_BUILD_TYPE STREQUAL Release)
    set(unity ON)
  endif()
  if(unity)
    set(targets ${target})
    if(TARGET ${target}_torch)
      list(APPEND targets ${target}_torch)
    endif()
    set(at_once 8 ${ARGN})
    list(GET at_once -1 at_once)
    set_target_properties(${targets} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${at_once})
  endif()
endfunction()

# dtrain_module(NAME SOURCES a.cpp … TORCH b.cpp … [USES module …] [LIBS target …] [COLD])
#   One static library per folder of lib/dtrain. TORCH: the files that see LibTorch's headers. USES names the lower modules
#   it may include (tests/repo checks the #include lines against the table in docs/architecture.md). LIBS stay private.
#   COLD: files of it that go over many values have options of their own (dtrain_sources).
function(dtrain_module name)
  cmake_parse_arguments(arg "COLD" "" "SOURCES;TORCH;USES;LIBS" ${ARGN})
  add_library(dtrain_${name} STATIC ${arg_SOURCES})
  target_include_directories(dtrain_${name} PUBLIC ${CMAKE_SOURCE_DIR}/lib)
  foreach(used ${arg_USES})
    target_link_libraries(dtrain_${name} PUBLIC dtrain_${used})
  endforeach()
  target_link_libraries(dtrain_${name} PRIVATE ${arg_LIBS})
  set(cold)
  if(arg_COLD)
    set(cold COLD)
  endif()
  dtrain_sources(dtrain_${name} code ${cold} TORCH ${arg_TORCH})
  dtrain_unity(dtrain_${name})
endfunction()

# The build tree finds LibTorch and the CUDA runtime it needs by RUNPATH. A bundle's own search path is written over it
# (cmake/bundle/libraries.py); the slashes make room for it and change nothing. If CMake has to replace a path when it
# installs, it makes room by colons, and an empty entry between two colons means the working directory. So no target has
# an INSTALL_RPATH or is installed by install(TARGETS), which would replace the path.
set(CMAKE_BUILD_RPATH ${LibTorch_RUNTIME_DIRS})
string(LENGTH "${CMAKE_BUILD_RPATH}" length)
if(length LESS 32)
  string(REPEAT / 32 slashes)
  string(APPEND CMAKE_BUILD_RPATH ${slashes})
endif()

# dtrain_bundle_test(NAME TARGET SECONDS RANKS [argument …]): a bundle runs this test too (share/dtrain/run_tests), under its
# mpirun unless RANKS is 0. The exit code 4 means that all of its tests were skipped.
function(dtrain_bundle_test name target seconds ranks)
  list(JOIN ARGN " " arguments)
  set_property(GLOBAL APPEND PROPERTY DTRAIN_BUNDLE_TEST_PROGRAMS ${target})
  set_property(GLOBAL APPEND PROPERTY DTRAIN_BUNDLE_TESTS "${name} ${seconds} ${ranks} ${target} ${arguments}")
endfunction()

# dtrain_test(NAME SOURCES … TORCH … USES module … [TIMEOUT s] [COST s] [LONG] [TIMING] [NOT_IN_BUNDLE]): a Catch2 program,
# one CTest entry, label unit. COST: about how long it takes, if that is long, so that it starts early. LONG: cases that
# are tagged [long] are an entry of their own, label long too, which scripts/test --quick leaves out. TIMING: label timing
# too, for tests that could fail on a machine that pauses for seconds. NOT_IN_BUNDLE: what it proves is the same on
# every machine.
function(dtrain_test name)
  cmake_parse_arguments(arg "LONG;TIMING;NOT_IN_BUNDLE" "TIMEOUT;COST" "SOURCES;TORCH;USES;LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${DTRAIN_PATIENCE}")
  set(labels unit)
  if(arg_TIMING)
    list(APPEND labels timing)
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE dtrain_catch_main ${arg_LIBS})
  foreach(used ${arg_USES})
    target_link_libraries(test_${name} PRIVATE dtrain_${used})
  endforeach()
  dtrain_sources(test_${name} test TORCH ${arg_TORCH})
  dtrain_unity(test_${name})
  set(entries unit.${name})
  if(arg_LONG)
    add_test(NAME unit.${name} COMMAND test_${name} "~[long]~[.]")
    add_test(NAME unit.${name}.long COMMAND test_${name} "[long]")
    list(APPEND entries unit.${name}.long)
  else()
    add_test(NAME unit.${name} COMMAND test_${name})
  endif()
  set_tests_properties(${entries} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 4
    ENVIRONMENT "DTRAIN_SOURCE_DIR=${CMAKE_SOURCE_DIR};OMP_NUM_THREADS=1")  # other entries run beside it; more threads would spin
  if(arg_LONG)
    set_tests_properties(unit.${name}.long PROPERTIES LABELS "${labels};long")
  endif()
  if(arg_COST)
    set_tests_properties(${entries} PROPERTIES COST ${arg_COST})
  endif()
  if(NOT arg_NOT_IN_BUNDLE)
    dtrain_bundle_test(unit.${name} test_${name} ${arg_TIMEOUT} 0)
  endif()
endfunction()

# dtrain_skipped_test(NAME LABEL REASON): counts as a skip where this machine lacks what the test needs, and fails under
# DTRAIN_REQUIRE_ALL=1.
function(dtrain_skipped_test name label reason)
  add_test(NAME ${name} COMMAND sh -c "echo \"skipped: $0\"; test \"$DTRAIN_REQUIRE_ALL\" = 1 || exit 4; exit 1" "${reason}")
  set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 4)
endfunction()

# Of tests that mpirun starts.
set(DTRAIN_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
if(DTRAIN_SANITIZE MATCHES thread)
  list(APPEND DTRAIN_MPI_ENVIRONMENT TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/open_mpi.tsan)
elseif(DTRAIN_SANITIZE MATCHES address)
  list(APPEND DTRAIN_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)  # Open MPI leaves 120 KB behind
endif()

# dtrain_mpi_test(NAME TORCH … USES … RANKS 2 3 4 [NETWORK 3] [RUNS "2 word …" …] [NOT_IN_BUNDLE]): the same program under
# mpirun, one CTest entry per rank count; for the counts of NETWORK once more with the argument "network", and one for each
# of RUNS, which begin with the count. Under sanitizers reports that are Open MPI's own are suppressed.
function(dtrain_mpi_test name)
  cmake_parse_arguments(arg "NOT_IN_BUNDLE" "TIMEOUT" "TORCH;USES;RANKS;NETWORK;RUNS;LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${DTRAIN_PATIENCE}")
  add_executable(test_mpi_${name})
  target_include_directories(test_mpi_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_mpi_${name} PRIVATE dtrain_catch ${arg_LIBS})
  foreach(used ${arg_USES})
    target_link_libraries(test_mpi_${name} PRIVATE dtrain_${used})
  endforeach()
  dtrain_sources(test_mpi_${name} test TORCH ${arg_TORCH})
  set(runs ${arg_RANKS} ${arg_RUNS})
  foreach(ranks ${arg_NETWORK})
    list(APPEND runs "${ranks} network")
  endforeach()
  foreach(run ${runs})
    separate_arguments(words UNIX_COMMAND "${run}")
    list(POP_FRONT words ranks)
    list(JOIN words . suffix)
    string(REPLACE , "" suffix "${suffix}")
    set(test_name mpi.${name}.${ranks})
    if(suffix)
      string(APPEND test_name .${suffix})
    endif()
    add_test(NAME ${test_name} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -np ${ranks}
                                       $<TARGET_FILE:test_mpi_${name}> ${words})
    set(cores 2)
    if(ranks EQUAL 1)
      set(cores 1)
    endif()
    set_tests_properties(${test_name} PROPERTIES LABELS mpi TIMEOUT ${arg_TIMEOUT} PROCESSORS ${cores}
      ENVIRONMENT "${DTRAIN_MPI_ENVIRONMENT}")
    if(NOT arg_NOT_IN_BUNDLE)
      dtrain_bundle_test(${test_name} test_mpi_${name} ${arg_TIMEOUT} ${ranks} ${words})
    endif()
  endforeach()
endfunction()

# dtrain_bounds_watched(TARGET FILE …): more files of a target, which parse untrusted bytes. Switches on the compiler's
# warnings about bounds, for which they must not use a precompiled header (DtrainToolchain.cmake).
function(dtrain_bounds_watched target)
  dtrain_part(${target} watched ${ARGN})
  target_compile_options(${target}_watched PRIVATE -Warray-bounds $<$<CXX_COMPILER_ID:GNU>:-Wrestrict> $<$<CXX_COMPILER_ID:GNU>:-Wstringop-overflow>)
  dtrain_unity(${target}_watched)
endfunction()

# dtrain_vector_code(FILE): for plain C++ loops over many floats, without LibTorch, which the compiler vectorises.
# Functions marked DTRAIN_VECTOR_CLONES are compiled once for each vector width if one can be chosen at run time (x86-64
# with GNU ifunc; not under sanitizers, whose runtime is not initialised when the choice is made). All give the same
# bits, since nothing is fused. -fno-math-errno: a square root is a single instruction only if it need not set errno.
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
