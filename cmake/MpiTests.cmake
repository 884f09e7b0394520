# Tests that run under the real mpirun. Everything that depends on which MPI is installed is here.
#
# shardlm_mpi_test(NAME RANKS n... COMMAND program args...
#                  [EXIT_CODE c] [STDERR regex] [TIMEOUT seconds] [ENVIRONMENT VAR=value...])
# adds one test mpi.NAME.np<n> for each rank count. It passes if mpirun ends with code c (default
# 0; "nonzero": any other) within the time, and if something in what the job writes to standard
# error matches the regex, where one is given. Ranks find their number in SHARDLM_TEST_RANKS. Others may use SHARDLM_MPIRUN, the command before
# "-n ranks", and SHARDLM_MPI_TEST_ENVIRONMENT.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpirun_version
                ERROR_VARIABLE mpirun_version_error RESULT_VARIABLE mpirun_failed)
if(mpirun_failed)
  message(FATAL_ERROR "${MPIEXEC_EXECUTABLE} --version failed: ${mpirun_version_error}")
endif()
set(SHARDLM_MPIRUN ${MPIEXEC_EXECUTABLE})
if(mpirun_version MATCHES "Open MPI|OpenRTE|open-mpi")
  # More ranks than cores; as root, in containers; and no binding: ctest runs tests side by side,
  # and each mpirun would bind its ranks to the same first cores.
  list(APPEND SHARDLM_MPIRUN --oversubscribe --allow-run-as-root --bind-to none)
endif()
string(REGEX MATCH "^[^\n]*" mpirun_version_line "${mpirun_version}")
message(STATUS "MPI tests run with: ${SHARDLM_MPIRUN} (${mpirun_version_line})")

set(SHARDLM_MPI_TEST_ENVIRONMENT "")
if(SHARDLM_SANITIZE MATCHES "address")
  # The MPI library keeps what it allocates until the process ends.
  list(APPEND SHARDLM_MPI_TEST_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
endif()

function(shardlm_mpi_test name)
  cmake_parse_arguments(ARG "" "EXIT_CODE;STDERR;TIMEOUT" "RANKS;COMMAND;ENVIRONMENT" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_RANKS OR NOT ARG_COMMAND)
    message(FATAL_ERROR "shardlm_mpi_test(${name}): RANKS and COMMAND are needed, "
                        "'${ARG_UNPARSED_ARGUMENTS}' is not known")
  endif()
  if(NOT DEFINED ARG_EXIT_CODE)
    set(ARG_EXIT_CODE 0)
  endif()
  if(NOT DEFINED ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR ctest_timeout "${ARG_TIMEOUT} + 10")  # mpirun is ended first: no rank stays behind
  foreach(ranks IN LISTS ARG_RANKS)
    add_test(NAME ${test_prefix}mpi.${name}.np${ranks}
             COMMAND ${CMAKE_COMMAND} -DEXIT_CODE=${ARG_EXIT_CODE} "-DSTDERR=${ARG_STDERR}"
                     -DTIMEOUT=${ARG_TIMEOUT}
                     -P ${CMAKE_SOURCE_DIR}/cmake/RunAndExpect.cmake --
                     ${SHARDLM_MPIRUN} -n ${ranks} ${ARG_COMMAND})
    set_tests_properties(${test_prefix}mpi.${name}.np${ranks} PROPERTIES
      PROCESSORS ${ranks} TIMEOUT ${ctest_timeout} LABELS mpi
      ENVIRONMENT
      "${SHARDLM_MPI_TEST_ENVIRONMENT};SHARDLM_TEST_RANKS=${ranks};${ARG_ENVIRONMENT}")
  endforeach()
endfunction()
