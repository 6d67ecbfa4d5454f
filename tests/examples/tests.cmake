# The examples, compiled against the public headers and the runtime alone.
add_executable(face_embed ${CMAKE_SOURCE_DIR}/examples/face_embed.c)
target_compile_options(face_embed PRIVATE -Wall -Wextra)
target_link_libraries(face_embed PRIVATE intaglio)
if(INTAGLIO_SANITIZE)
  target_link_options(face_embed PRIVATE -fsanitize=${INTAGLIO_SANITIZE})
endif()
add_dependencies(test_examples face_embed)
target_compile_definitions(test_examples PRIVATE FACE_EMBED="$<TARGET_FILE:face_embed>")
