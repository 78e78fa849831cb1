// Threads that must not return into Python any more.
#pragma once

namespace floe_torch {

// On the stack of every entry that Python calls without its lock, before anything it must let go of.
//
// A thread that asks for Python's lock while Python finalizes is ended by CPython before 3.14, through frames
// of C++ that can't be unwound: std::terminate. So once Python has begun to exit, other threads than the one
// that exits park here for ever, as from 3.14 on they do in Python; the end of the process is theirs. A
// thread that runs callbacks is let through as long as the end waits for callbacks.
class ExitGate {
 public:
  ExitGate() = default;
  ~ExitGate();
  ExitGate(const ExitGate&) = delete;
  ExitGate& operator=(const ExitGate&) = delete;

  // This thread, Python's, begins to exit.
  static void close();
  // Callbacks that have not ended by now are not waited for.
  static void close_to_callbacks();
};

}  // namespace floe_torch
