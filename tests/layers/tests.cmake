# The libraries stand on their own: the runtime needs neither of the other two, pipelines need no compiler
# (docs/ARCHITECTURE.md). Whole archives are linked, so that a reference from any file counts.
add_executable(runtime_alone layers/runtime_alone.c)
target_link_libraries(runtime_alone PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,intaglio>)
add_executable(pipelines_alone layers/pipelines_alone.c)
target_link_libraries(pipelines_alone PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,intaglio-pipelines>)
foreach(program runtime_alone pipelines_alone)
  if(INTAGLIO_SANITIZE)
    target_link_options(${program} PRIVATE -fsanitize=${INTAGLIO_SANITIZE})
  endif()
  add_test(NAME layers/${program} COMMAND ${program})
  set_tests_properties(layers/${program} PROPERTIES LABELS layers)
endforeach()

# What the libraries may not do, read from their symbols: print, abort, exit. And what the runtime may not need.
add_test(NAME layers/symbols COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/layers/check_symbols $<TARGET_FILE:runtime_alone>
                                     $<TARGET_FILE:intaglio> $<TARGET_FILE:intaglio-pipelines> $<TARGET_FILE:intaglio-compiler>)
set_tests_properties(layers/symbols PROPERTIES LABELS layers)
