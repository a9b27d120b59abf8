# What a stranger does: installs, moves the tree, and builds a program against it, by find_package (shared and
# static) and by pkg-config.
#   cmake -DBUILD=… -DSOURCE=tests/c/package -DWORK=… -DCOMPILER=cc -P package.cmake
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${WORK}/first ${WORK}/moved)

function(run expect)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE rc)
  if(NOT rc EQUAL 0 OR NOT out MATCHES "${expect}")
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${rc}\n${out}")
  endif()
endfunction()

run("" ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/moved -DCMAKE_C_COMPILER=${COMPILER})
run("" ${CMAKE_COMMAND} --build ${WORK}/build)
run("58 \\(ABI 1\\.1\\)" ${WORK}/build/app)
run("58 \\(ABI 1\\.1\\)" ${WORK}/build/app_static)

find_program(PKG_CONFIG NAMES pkg-config pkgconf)
if(NOT PKG_CONFIG)
  message("skip: pkg-config is missing; find_package works")
  return()
endif()
file(GLOB_RECURSE pc ${WORK}/moved/*/skeep-core.pc)
cmake_path(GET pc PARENT_PATH folder)
set(ENV{PKG_CONFIG_PATH} ${folder})
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs skeep-core OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PKG_CONFIG} --variable=libdir skeep-core OUTPUT_VARIABLE libdir OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
run("" ${COMPILER} -std=c11 ${SOURCE}/app.c ${flags} -Wl,-rpath,${libdir} -o ${WORK}/app_pc)
run("58 \\(ABI 1\\.1\\)" ${WORK}/app_pc)
