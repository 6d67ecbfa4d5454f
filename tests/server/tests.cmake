# Builds a root file system out of packages, so it needs root, debootstrap and a mirror: in ./check --full.
add_test(NAME rootfs/test_rootfs COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/server/test_rootfs $<TARGET_FILE:intaglio-command>)
set_tests_properties(rootfs/test_rootfs PROPERTIES LABELS rootfs SKIP_RETURN_CODE 77 TIMEOUT 900)
