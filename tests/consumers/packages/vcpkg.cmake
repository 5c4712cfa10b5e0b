# Runs a portfile as vcpkg does, as far as ours uses it: cmake -DPORTFILE=... -P vcpkg.cmake
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  file(INSTALL ${arg_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/plimsoll" RENAME copyright)
endfunction()

include("${PORTFILE}")
