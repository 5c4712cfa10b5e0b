# SPDX-License-Identifier: MIT
# Stands in for conan.tools.files: copies what matches a pattern, with its path.
import fnmatch
import os
import shutil


def copy(conanfile, pattern, src, dst):
    for directory, _, names in os.walk(src):
        for name in names:
            path = os.path.relpath(os.path.join(directory, name), src)
            if fnmatch.fnmatch(path, pattern):
                to = os.path.join(dst, path)
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy2(os.path.join(src, path), to)
