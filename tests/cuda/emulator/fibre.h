// Fibre of a kernel's thread: a separate stack, entered and left by the emulator's scheduler.
#pragma once

#include <cstddef>

namespace cuda_emulator {

class Fibre {
 public:
  // The first `resume` calls `entry`, which must not return.
  Fibre(void (*entry)(), std::size_t number);
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // Runs the fibre until it calls `pause`. Must not be called from a fibre.
  void resume();
  // Returns to the caller of `resume`. Must be called from a fibre.
  static void pause();

 private:
  static void start();

  void (*entry_)();
  char* memory_;  // a guard page, then the stack
  void* stack_pointer_;
  void* fake_stack_ = nullptr;  // of the address sanitizer
};

}  // namespace cuda_emulator
