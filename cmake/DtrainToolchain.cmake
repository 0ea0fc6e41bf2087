# Compiler, linker and flags: how our own code is built, not which libraries it uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# -fPIC by hand: CMake would give programs -fPIE, and a precompiled header fits only one of the two.
set(of_cxx $<COMPILE_LANGUAGE:C,CXX>)  # nvcc has its own options for these
add_compile_options($<${of_cxx}:-fPIC>)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# -ffp-contract=off: the compiler never fuses a product and a sum, so that the same source gives the same bits whatever
# the optimiser decides.
add_compile_options("$<${of_cxx}:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Werror;-ffp-contract=off>")
# With a precompiled header GCC 12 wrongly finds the inside of a std::string too small (its PR 105329 and 105651); for
# files without one dtrain_bounds_watched() switches these warnings on again.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<${of_cxx}:-Wno-array-bounds> $<${of_cxx}:-Wno-restrict> $<${of_cxx}:-Wno-stringop-overflow>)
endif()
# GCC collects its own garbage whenever its memory has grown by so much, which takes a twentieth of the time; now it begins
# at 1 GB, and a file needs up to a quarter more memory, but none more than what is reckoned with below.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<${of_cxx}:--param=ggc-min-heapsize=1000000>)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -D_GLIBCXX_ASSERTIONS")

option(DTRAIN_COVERAGE "Count the lines and branches that tests run (GCC, gcovr)" OFF)
set(DTRAIN_SANITIZE "" CACHE STRING "Sanitizers for our own code, as in address,undefined")
set(DTRAIN_PATIENCE 1)  # factor for all time limits of tests
if(DTRAIN_SANITIZE OR DTRAIN_COVERAGE)
  set(DTRAIN_PATIENCE 6)
  add_compile_options(-O1)  # -O0 is ten times slower
endif()
if(DTRAIN_COVERAGE)
  add_compile_options("$<${of_cxx}:--coverage;-fprofile-update=atomic>")
  add_link_options(--coverage)
endif()
if(DTRAIN_SANITIZE)
  add_compile_options(-fsanitize=${DTRAIN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DTRAIN_SANITIZE})
  if(DTRAIN_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)  # by default it only prints a line, and the test passes
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 then wrongly finds members of std::regex and of std::optional uninitialised.
    add_compile_options($<${of_cxx}:-Wno-maybe-uninitialized>)
  endif()
endif()

find_program(DTRAIN_CCACHE ccache)
if(DTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # pch_defines and time_macros let ccache serve files that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${DTRAIN_CCACHE})
  add_compile_options($<${of_cxx}:-fpch-preprocess>)
endif()

find_program(DTRAIN_MOLD mold)
if(DTRAIN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# One LibTorch file takes about 1.4 GB of memory to compile: never more of them at once than fit.
cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR torch_jobs "${memory_mb} / 2000")
if(torch_jobs LESS 1)
  set(torch_jobs 1)
endif()
set_property(GLOBAL PROPERTY JOB_POOLS torch_compile=${torch_jobs})
