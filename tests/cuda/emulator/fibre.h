// A thread of a kernel as a fibre: a stack of its own, entered and left by the emulator's scheduler.
#pragma once

#include <cstddef>

namespace cuda_emulator {

class Fibre {
 public:
  // Calls `entry` at the first `resume`; it must not return.
  Fibre(void (*entry)(), std::size_t number);
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // Runs the fibre until it calls `pause`. Not from within a fibre.
  void resume();
  // Back to where `resume` was called. Only from within a fibre.
  static void pause();

 private:
  static void start();

  void (*entry_)();
  char* memory_;  // a guard page, then the stack
  void* stack_pointer_;
  void* fake_stack_ = nullptr;  // of the address sanitizer
};

}  // namespace cuda_emulator
