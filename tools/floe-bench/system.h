// What the bench asks of the system.
#pragma once

#include <cstdint>
#include <string>

namespace floe::bench {

// Binds the calling thread to one CPU, also one outside its present mask; false: the system refused.
bool pin_to(unsigned cpu);

// A port that nothing listens on at this moment; 0: there is none.
uint16_t free_port();

// "AMD EPYC 9R14"; the architecture where the kernel names no model.
std::string cpu_model();

}  // namespace floe::bench
