// Asks for a device in a program that has no Gloo: the answer is what to do.
#include <floe/gloo.h>

#include <cstring>
#include <iostream>
#include <stdexcept>

int main() {
  try {
    floe::create_gloo_device("lo");
  } catch (const std::runtime_error& error) {
    return std::strstr(error.what(), "link with libgloo") ? 0 : 1;
  }
  std::cerr << "there is no Gloo to make a device for\n";
  return 1;
}
