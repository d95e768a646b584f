# cmake -DSOURCE_DIR=… -DOUTPUT=header -P GitCommit.cmake
# Writes the commit of SOURCE_DIR as a C macro. OUTPUT is touched only when the commit changed, so
# that running this on every build rebuilds nothing.
set(commit "unknown")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse HEAD
                  OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    # Optional locks off: a build must not collide with a git command in another terminal.
    execute_process(COMMAND ${GIT} --no-optional-locks -C ${SOURCE_DIR}
                            status --porcelain --untracked-files=no
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    set(commit "${head}")
    if(NOT changes STREQUAL "")
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define NQD_GIT_COMMIT \"${commit}\"\n")
