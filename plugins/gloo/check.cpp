// floe-gloo-check FILE...: which revision of Gloo's transport interface has a library, such as a wheel's
// libtorch_cpu.so, for any machine? The check that libfloe_gloo.so makes when it is loaded, on disk.
#include <cstdio>
#include <exception>

#include "elf_file.h"

int main(int argc, char** argv) {
  using namespace floe::gloo_transport;
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr,
                 "usage: %s FILE...\nPrints the revision of the Gloo in each library; 1 if floe can't serve "
                 "one of them.\n",
                 argv[0]);
    return 2;
  }
  int result = 0;
  for (int i = 1; i < argc; ++i) {
    try {
      const Layout layout = identify(ElfFile(argv[i]));
      if (layout.supported()) {
        std::printf("%s: R%d (%s)\n", argv[i], layout.revision, seen_in(layout.revision));
        continue;
      }
      std::printf("%s\n", refusal_of(layout, argv[i]).c_str());
    } catch (const std::exception& error) {
      std::printf("floe: %s\n", error.what());
    }
    result = 1;
  }
  return result;
}
