# SPDX-License-Identifier: MIT
# Stands in for Conan 2, as far as our recipe uses it.


class ConanFile:
    pass
