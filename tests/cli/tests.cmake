# The end-to-end tests run the command itself.
add_dependencies(test_cli intaglio-command)
add_dependencies(test_cli_errors intaglio-command)
add_dependencies(test_face_compile intaglio-command)
add_dependencies(test_compiled_services intaglio-command)
