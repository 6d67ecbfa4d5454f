# Programs of this folder see every allocation of our libraries (faults/fail_allocation.h).
file(GLOB FAULT_SOURCES CONFIGURE_DEPENDS faults/test_*.c)
foreach(source ${FAULT_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  foreach(function malloc calloc realloc aligned_alloc posix_memalign strdup strndup realpath free)
    target_link_options(${name} PRIVATE -Wl,--wrap=${function})
  endforeach()
endforeach()
