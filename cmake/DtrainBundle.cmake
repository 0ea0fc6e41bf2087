# cmake --install build/release --prefix DIR: a bundle, which runs wherever DIR is moved, on nodes that have LibTorch and
# nothing else. docs/bundle.md shows its layout. Tests are added by dtrain_bundle_test() (cmake/DtrainModule.cmake).

set(CMAKE_INSTALL_MESSAGE NEVER)

# Checked first: in a folder with other software, programs there would find these libraries instead of their own.
install(CODE [[
  get_filename_component(prefix "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
  if(prefix MATCHES "^/(usr(/local)?)?$")
    message(FATAL_ERROR "dtrain installs as a bundle with its own libcrypto, libz and Open MPI, which need a folder of their "
                        "own: cmake --install ${CMAKE_CURRENT_LIST_DIR} --prefix DIR")
  endif()
]])

set(bundle ${CMAKE_SOURCE_DIR}/cmake/bundle)
set(here share/dtrain)
install(PROGRAMS ${bundle}/dtrain ${bundle}/mpirun DESTINATION bin)
install(PROGRAMS ${bundle}/orted DESTINATION lib/openmpi/bin)
install(FILES ${bundle}/environment.sh DESTINATION libexec/dtrain)
install(PROGRAMS $<TARGET_FILE:dtrain> DESTINATION libexec/dtrain)
if(TARGET dtrain_cuda)
  install(PROGRAMS $<TARGET_FILE:dtrain_cuda> DESTINATION lib)
endif()

install(DIRECTORY configs DESTINATION ${here})
install(DIRECTORY docs DESTINATION ${here} FILES_MATCHING PATTERN *.md PATTERN images EXCLUDE)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${here})
install(DIRECTORY scripts DESTINATION ${here} USE_SOURCE_PERMISSIONS
        PATTERN __pycache__ EXCLUDE
        PATTERN site.sh EXCLUDE  # this site's own
        REGEX "/scripts/(setup|test|quickstart|bundle)$" EXCLUDE)  # these need the sources

# The marker. The launcher reads there which LibTorch it need not try first.
file(CONFIGURE OUTPUT bundle/bundle CONTENT "dtrain @PROJECT_VERSION@\nlibtorch @LibTorch_VERSION@\n" @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bundle/bundle DESTINATION ${here})

if(BUILD_TESTING)
  get_property(tests GLOBAL PROPERTY DTRAIN_BUNDLE_TESTS)
  get_property(programs GLOBAL PROPERTY DTRAIN_BUNDLE_TEST_PROGRAMS)
  list(REMOVE_DUPLICATES programs)
  list(JOIN tests "\n" tests)
  file(CONFIGURE OUTPUT bundle/list CONTENT "@tests@\n" @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bundle/list DESTINATION ${here}/tests)
  install(PROGRAMS ${bundle}/run_tests DESTINATION ${here})
  list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  install(PROGRAMS ${programs} DESTINATION ${here}/tests)
  install(DIRECTORY tests/support/reference DESTINATION ${here}/tests/support PATTERN __pycache__ EXCLUDE)
endif()

# The libraries come last, when everything that needs them is there.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
string(CONFIGURE [[
  execute_process(COMMAND "@Python3_EXECUTABLE@" -B "@bundle@/libraries.py" fill "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}"
                          --program "@CMAKE_RUNTIME_OUTPUT_DIRECTORY@/dtrain" --mpirun "@MPIEXEC_EXECUTABLE@" --strip "@CMAKE_STRIP@"
                  RESULT_VARIABLE code)
  if(code)
    message(FATAL_ERROR "the bundle in $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX} is not complete; the reason stands above")
  endif()
]] fill @ONLY)
install(CODE "${fill}")
