// Runs a fuzzer on inputs of fixed seeds where there is no libFuzzer: so that all fuzzers compile and start
// with every change. It finds what is shallow; `tools/dev fuzz` looks further.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main() {
  constexpr uint32_t kInputs = 2000;
  constexpr size_t kLongest = 1024;
  for (uint32_t seed = 0; seed < kInputs; ++seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> input(random() % (kLongest + 1));
    // Few values, or all: small numbers and repeated ones are what formats are made of.
    const uint32_t values = 1u << (1 + random() % 8);
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random() % values);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}
