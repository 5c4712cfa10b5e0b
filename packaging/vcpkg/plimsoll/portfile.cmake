# An overlay port, which installs the checkout that it is part of:
#   vcpkg install plimsoll --overlay-ports=path/to/plimsoll/packaging/vcpkg
# For a registry, let SOURCE_PATH be what vcpkg_from_github downloads.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

file(GLOB headers "${SOURCE_PATH}/*.h")
file(INSTALL ${headers} DESTINATION "${CURRENT_PACKAGES_DIR}/include/plimsoll")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/plimsoll")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

# vcpkg wants the files of CMake in share/plimsoll; all paths are relative to the file that has them.
set(INCLUDEDIR "\${CMAKE_CURRENT_LIST_DIR}/../../include")
foreach(file plimsoll-config.cmake plimsoll-config-version.cmake)
  configure_file("${SOURCE_PATH}/packaging/${file}.in"
                 "${CURRENT_PACKAGES_DIR}/share/plimsoll/${file}" @ONLY)
endforeach()
set(PREFIX "\${pcfiledir}/../..")
set(PC_INCLUDEDIR "\${prefix}/include")
configure_file("${SOURCE_PATH}/packaging/plimsoll.pc.in"
               "${CURRENT_PACKAGES_DIR}/share/pkgconfig/plimsoll.pc" @ONLY)
