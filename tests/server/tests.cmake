# Dockerfile, compose files, unit and guide against the command.
add_test(NAME server/packaging_files COMMAND sh -c "exec \"\${ITG_PYTHON:-python3}\" '${CMAKE_CURRENT_SOURCE_DIR}/server/packaging_files.py' '$<TARGET_FILE:intaglio-command>'")
set_tests_properties(server/packaging_files PROPERTIES LABELS server SKIP_RETURN_CODE 77 TIMEOUT 120)

# Builds the images, the whole tree inside them, so it needs root, buildah and a mirror: in ./check --full.
add_test(NAME rootfs/test_image COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/server/test_image $<TARGET_FILE:intaglio-command>)
set_tests_properties(rootfs/test_image PROPERTIES LABELS rootfs SKIP_RETURN_CODE 77 TIMEOUT 3600)
