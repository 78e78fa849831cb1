// What the precompiled headers of the tests belong to: see CMakeLists.txt.
