#include "tests/cuda/emulator/fibre.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the emulator supports only x86-64"
#endif

// Saves the callee-saved registers, stores the stack pointer in *from, and continues on stack `to`. The
// rounding mode is the same everywhere.
extern "C" void cuda_emulator_switch(void** from, void* to);
asm(R"(
.text
.hidden cuda_emulator_switch
.globl cuda_emulator_switch
.type cuda_emulator_switch, @function
cuda_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_emulator_switch, . - cuda_emulator_switch
)");

namespace cuda_emulator {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStack = 512 << 10;
#else
constexpr std::size_t kStack = 128 << 10;
#endif
constexpr std::size_t kGuard = 4096;

// One thread at a time executes work.
Fibre* current = nullptr;
void* scheduler = nullptr;  // its stack pointer while a fibre runs
#if defined(__SANITIZE_ADDRESS__)
const void* scheduler_stack = nullptr;
std::size_t scheduler_size = 0;
#endif

}  // namespace

Fibre::Fibre(void (*entry)(), std::size_t number) : entry_(entry) {
  void* memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  memory_ = static_cast<char*>(memory);
  mprotect(memory_, kGuard, PROT_NONE);
  // Stacks with equal page offsets would compete for the same cache sets.
  const std::size_t offset = 64 + number % 32 * 128;
  auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + kGuard + kStack - offset);
  // Initial contents that the switch pops: six registers, the return address, and call alignment.
  *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(&Fibre::start);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_pointer_ = top;
}

Fibre::~Fibre() { munmap(memory_, kGuard + kStack); }

void Fibre::start() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
#endif
  current->entry_();
  std::abort();
}

void Fibre::resume() {
  current = this;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, memory_ + kGuard, kStack);
#endif
  cuda_emulator_switch(&scheduler, stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  current = nullptr;
}

void Fibre::pause() {
  Fibre& self = *current;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&self.fake_stack_, scheduler_stack, scheduler_size);
#endif
  cuda_emulator_switch(&self.stack_pointer_, scheduler);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(self.fake_stack_, &scheduler_stack, &scheduler_size);
#endif
}

}  // namespace cuda_emulator
