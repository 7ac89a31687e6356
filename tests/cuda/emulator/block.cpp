#include "tests/cuda/emulator/block.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "tests/cuda/emulator/fibre.h"
#include "tests/cuda/emulator/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_emulator {

uint3 thread_index, block_index;
dim3 block_extent, grid_extent;
std::uint64_t block_serial = 0;

namespace {

constexpr unsigned kWarp = 32, kMostThreads = 1024;
constexpr std::size_t kMostShared = 48 << 10;

enum class State : std::uint8_t { ready, at_block_barrier, in_warp, done };
enum class Meeting : std::uint8_t { barrier, shuffle, ballot };

struct Thread {
  Fibre* fibre = nullptr;  // while it runs or waits
  State state = State::done;
  uint3 index{};
  Where where;  // source location of its wait
  // For warp operations: arguments and result.
  Meeting meeting{};
  unsigned mask = 0, source = 0;
  std::uint64_t value = 0, result = 0;
};

// Lanes of a warp as bit masks.
struct Warp {
  unsigned in_warp = 0;    // waiting for other lanes
  unsigned not_there = 0;  // exited, or beyond the block
};

// State of the current block. Never destroyed, because kernels run until the process ends.
Thread threads[kMostThreads];
Warp warps[kMostThreads / kWarp];
unsigned thread_count = 0, current = 0;
unsigned waiting = 0, finished = 0;  // number of threads at the block's barrier; exited
int counted = 0, count_result = 0;   // __syncthreads_count of the current barrier; of the last one
const std::function<void()>* body = nullptr;
bool running = false;

// ---- Early start: device memory is inaccessible to a kernel until a thread waits for the previous kernel

constexpr int kHiddenTimes = 4;  // launches per kernel; hiding takes longer than many kernels
auto& times_hidden = *new std::unordered_map<const void*, int>;
std::uint64_t awaiting = 0;  // number of threads of the current kernel that have waited
bool hidden = false;

// ---- Order

std::uint64_t random_state = 0x9e3779b97f4a7c15u;

std::uint64_t next_random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

Order order_of_environment() {
  const char* text = std::getenv("TANDEM_EMULATOR_ORDER");
  const std::string_view name = text ? text : "forward";
  if (name == "forward") return Order::forward;
  if (name == "reverse") return Order::reverse;
  if (name == "shuffled") return Order::shuffled;
  fail("TANDEM_EMULATOR_ORDER must be forward, reverse or shuffled, got \"%s\"", text);
}

Order& chosen_order() {
  static Order order = order_of_environment();
  return order;
}

// ---- Shared memory

constexpr unsigned char kPoison = 0xff, kCanary = 0xa7;
constexpr std::size_t kGap = 64;  // on both sides of every variable
constexpr std::size_t kMostVariables = 64;

alignas(256) unsigned char shared_room[2 * kMostShared + kGap * (kMostVariables + 2)];
struct Variable {
  std::size_t begin, end;
};
Variable variables[kMostVariables];  // the first is the dynamic one
std::size_t variable_count = 0, shared_bytes = 0, shared_end = 0;

void set_readable([[maybe_unused]] std::size_t begin, [[maybe_unused]] std::size_t end,
                  [[maybe_unused]] bool readable) {
#if defined(__SANITIZE_ADDRESS__)
  if (readable) {
    __asan_unpoison_memory_region(shared_room + begin, end - begin);
  } else {
    __asan_poison_memory_region(shared_room + begin, end - begin);
  }
#endif
}

void* place(std::size_t bytes, std::size_t alignment, const Where* where) {
  const std::size_t begin = (shared_end + kGap + alignment - 1) / alignment * alignment;
  shared_bytes += bytes;
  if (shared_bytes > kMostShared || variable_count == kMostVariables)
    fail("%s:%u: %zu bytes of shared memory in one block", where ? where->file_name() : "launch",
         where ? where->line() : 0, shared_bytes);
  // From the end of the last variable to the gap after this one.
  set_readable(shared_end, begin + bytes + kGap, true);
  std::fill(shared_room + shared_end, shared_room + begin + bytes + kGap, kCanary);
  std::fill(shared_room + begin, shared_room + begin + bytes, kPoison);
  set_readable(shared_end, begin, false);
  set_readable(begin + bytes, begin + bytes + kGap, false);
  variables[variable_count++] = {begin, begin + bytes};
  shared_end = begin + bytes;
  return shared_room + begin;
}

void check_gaps() {
#if !defined(__SANITIZE_ADDRESS__)
  std::size_t end = 0;
  for (std::size_t i = 0; i <= variable_count; ++i) {
    const std::size_t next = i < variable_count ? variables[i].begin : end + kGap;
    for (; end < next; ++end) {
      if (variable_count > 0 && shared_room[end] != kCanary)
        fail(
            "a kernel wrote outside its shared variables, %zu bytes behind variable %zu of the block "
            "(variable 0 is the dynamic one)",
            end - (i > 0 ? variables[i - 1].end : 0), i > 0 ? i - 1 : 0);
    }
    if (i < variable_count) end = variables[i].end;
  }
#endif
}

// ---- Threads

// Entry of every fibre: runs threads one after the other.
void thread_main() {
  for (;;) {
    (*body)();
    threads[current].state = State::done;
    Fibre::pause();
  }
}

// Idle fibres. The most recently used one is taken first, since its stack is in the cache; a kernel whose
// threads never wait needs only one.
Fibre* free_fibres[kMostThreads];
unsigned free_count = 0, made_count = 0;

Fibre* take_fibre() {
  return free_count > 0 ? free_fibres[--free_count] : new Fibre(thread_main, made_count++);
}

void wait_as(State state, const Where& where) {
  threads[current].state = state;
  threads[current].where = where;
  Fibre::pause();
}

const char* name_of(Meeting meeting) {
  return meeting == Meeting::barrier ? "__syncwarp" : meeting == Meeting::shuffle ? "__shfl" : "a vote";
}

void print(unsigned number) {
  const Thread& thread = threads[number];
  std::fprintf(stderr, "  thread %u (%u,%u,%u): ", number, thread.index.x, thread.index.y, thread.index.z);
  switch (thread.state) {
    case State::ready:
      std::fprintf(stderr, "runs\n");
      break;
    case State::done:
      std::fprintf(stderr, "has left the kernel\n");
      break;
    case State::at_block_barrier:
      std::fprintf(stderr, "waits at __syncthreads, %s:%u\n", thread.where.file_name(), thread.where.line());
      break;
    case State::in_warp:
      std::fprintf(stderr, "waits in %s with mask %08x, %s:%u\n", name_of(thread.meeting), thread.mask,
                   thread.where.file_name(), thread.where.line());
      break;
  }
}

// Reports waiting threads, one for each distinct wait, and aborts.
[[noreturn]] void fail_waiting(const char* message) {
  std::fflush(stdout);
  std::fprintf(stderr, "cuda emulator: %s\n", message);
  unsigned shown = 0;
  for (unsigned i = 0; i < thread_count && shown < 8; ++i) {
    const Thread& a = threads[i];
    const bool known = std::any_of(threads, threads + i, [&](const Thread& b) {
      return a.state == b.state && (a.state == State::done || a.where.line() == b.where.line()) &&
             (a.state != State::in_warp || a.mask == b.mask);
    });
    if (known) continue;
    print(i);
    ++shown;
  }
  fail("in block (%u,%u,%u) of %u threads", block_index.x, block_index.y, block_index.z, thread_count);
}

// Compares file names by address, which is unique within a kernel.
bool same_place(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() && a.file_name() == b.file_name();
}

// ---- Warps

template <class Visit>
void for_each_lane(unsigned lanes, const Visit& visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<unsigned>(std::countr_zero(lanes)));
}

// If all lanes in the mask of thread `number` have arrived, computes their results and returns true.
bool try_meet(unsigned number) {
  const Thread& self = threads[number];
  Warp& warp = warps[number / kWarp];
  if ((self.mask & ~(warp.in_warp | warp.not_there)) != 0) return false;
  const unsigned first = number / kWarp * kWarp, together = self.mask & warp.in_warp;
  bool meet = true;
  for_each_lane(together, [&](unsigned lane) {
    const Thread& other = threads[first + lane];
    if (other.mask == self.mask && other.meeting == self.meeting && same_place(other.where, self.where))
      return;
    if (other.mask >> (number - first) & 1)
      fail_waiting("lanes that name each other wait at different places or with different masks");
    meet = false;
  });
  if (!meet) return false;
  unsigned votes = 0;
  for_each_lane(together, [&](unsigned lane) {
    votes |= static_cast<unsigned>(threads[first + lane].value & 1) << lane;
  });
  for_each_lane(together, [&](unsigned lane) {
    Thread& thread = threads[first + lane];
    thread.state = State::ready;
    if (thread.meeting == Meeting::ballot) thread.result = votes;
    if (thread.meeting != Meeting::shuffle) return;
    if ((together >> thread.source & 1) == 0) {
      thread.state = State::in_warp;
      print(first + lane);
      fail_waiting("a lane reads the value of a lane that provides none");
    }
    thread.result = threads[first + thread.source].value;
  });
  warp.in_warp &= ~together;
  return true;
}

std::uint64_t meet(Meeting meeting, unsigned mask, std::uint64_t value, unsigned source, const Where& where) {
  const unsigned number = current;
  Thread& self = threads[number];
  self.state = State::in_warp;
  self.where = where;
  self.meeting = meeting;
  self.mask = mask;
  self.value = value;
  self.source = source;
  if ((mask >> (number % kWarp) & 1) == 0) fail_waiting("a lane is not in its own mask");
  warps[number / kWarp].in_warp |= 1U << number % kWarp;
  if (!try_meet(number)) Fibre::pause();
  return self.result;
}

// ---- Blocks

void run_thread(unsigned number) {
  Thread& thread = threads[number];
  current = number;
  thread_index = thread.index;
  if (!thread.fibre) thread.fibre = take_fibre();
  thread.fibre->resume();
  if (thread.state == State::at_block_barrier) {
    ++waiting;
  } else if (thread.state == State::done) {
    ++finished;
    free_fibres[free_count++] = std::exchange(thread.fibre, nullptr);
    Warp& warp = warps[number / kWarp];
    warp.not_there |= 1U << number % kWarp;
    // Lanes that waited for this one may proceed.
    for_each_lane(warp.in_warp, [&](unsigned lane) {
      const unsigned other = number / kWarp * kWarp + lane;
      if (threads[other].state == State::in_warp && (threads[other].mask >> number % kWarp & 1) != 0)
        try_meet(other);
    });
  }
}

// Runs each thread of the warp until it waits for another warp; returns whether any has moved.
bool run_warp(unsigned warp, const std::vector<unsigned>& lanes) {
  bool moved = false, again = true;
  while (again) {
    again = false;
    for (const unsigned lane : lanes) {
      const unsigned number = warp * kWarp + lane;
      if (number >= thread_count || threads[number].state != State::ready) continue;
      run_thread(number);
      moved = again = true;
    }
  }
  return moved;
}

void open_barrier() {
  const Where& where = threads[0].where;
  for (unsigned i = 0; i < thread_count; ++i) {
    if (!same_place(threads[i].where, where)) fail_waiting("threads of a block wait at different barriers");
  }
  for (unsigned i = 0; i < thread_count; ++i) threads[i].state = State::ready;
  waiting = 0;
  count_result = std::exchange(counted, 0);
}

void run_block(std::size_t dynamic_bytes) {
  static auto &order_of_warps = *new std::vector<unsigned>, &lanes = *new std::vector<unsigned>;
  ++block_serial;
  variable_count = shared_bytes = shared_end = 0;
  place(dynamic_bytes, 256, nullptr);
  waiting = finished = 0;
  counted = count_result = 0;
  for (unsigned i = 0; i < thread_count; ++i) threads[i].state = State::ready;
  const unsigned warp_count = (thread_count + kWarp - 1) / kWarp;
  for (unsigned i = 0; i < warp_count; ++i) {
    const unsigned there = std::min(kWarp, thread_count - i * kWarp);
    warps[i] = {.not_there = there == kWarp ? 0 : ~0U << there};
  }
  while (finished < thread_count) {
    arrange(warp_count, order_of_warps);
    arrange(kWarp, lanes);
    bool moved = false;
    for (const unsigned warp : order_of_warps) moved = run_warp(warp, lanes) || moved;
    if (finished == thread_count) break;
    if (waiting == thread_count) {
      open_barrier();
    } else if (waiting + finished == thread_count) {
      fail_waiting("threads left the kernel while others wait at a barrier");
    } else if (!moved) {
      fail_waiting("deadlock: all threads wait");
    }
  }
  check_gaps();
}

void prepare_threads(dim3 block) {
  thread_count = block.x * block.y * block.z;
  unsigned i = 0;
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y) {
      for (unsigned x = 0; x < block.x; ++x, ++i) {
        threads[i].index = {x, y, z};
      }
    }
  }
}

}  // namespace

void set_order(Order order) { chosen_order() = order; }
Order order() { return chosen_order(); }

void arrange(std::size_t count, std::vector<unsigned>& positions) {
  positions.resize(count);
  std::iota(positions.begin(), positions.end(), 0u);
  if (order() == Order::reverse) std::reverse(positions.begin(), positions.end());
  if (order() != Order::shuffled) return;
  for (std::size_t i = count; i > 1; --i) std::swap(positions[i - 1], positions[next_random() % i]);
}

void execute(const Launch& launch, const std::function<void()>& thread) {
  if (std::exchange(running, true)) fail("a kernel is executed within a kernel");
  static auto& blocks = *new std::vector<unsigned>;
  body = &thread;
  block_extent = launch.block;
  grid_extent = launch.grid;
  prepare_threads(launch.block);
  arrange(std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z, blocks);
  awaiting = 0;
  hidden = launch.early && times_hidden[launch.kernel]++ < kHiddenTimes;
  if (hidden) hide_device_memory();
  for (const unsigned block : blocks) {
    block_index = {block % launch.grid.x, block / launch.grid.x % launch.grid.y,
                   block / launch.grid.x / launch.grid.y};
    run_block(launch.shared_bytes);
  }
  if (launch.early && awaiting != std::uint64_t{blocks.size()} * thread_count)
    fail("early start: %zu of %zu threads waited for the previous kernel", static_cast<std::size_t>(awaiting),
         blocks.size() * thread_count);
  body = nullptr;
  running = false;
}

void fail(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::fflush(stdout);
  std::fprintf(stderr, "cuda emulator: ");
  std::vfprintf(stderr, format, arguments);
  std::fprintf(stderr, "\n");
  va_end(arguments);
  std::abort();
}

// ---- What kernels call

unsigned lane() { return current % kWarp; }

void await_earlier_grid() {
  ++awaiting;
  if (std::exchange(hidden, false)) show_device_memory();
}

void block_barrier(const Where& where) { wait_as(State::at_block_barrier, where); }

int block_barrier_count(bool value, const Where& where) {
  counted += value ? 1 : 0;
  wait_as(State::at_block_barrier, where);
  return count_result;
}

void warp_barrier(unsigned mask, const Where& where) { meet(Meeting::barrier, mask, 0, 0, where); }

std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned source, const Where& where) {
  return meet(Meeting::shuffle, mask, value, source, where);
}

unsigned ballot(unsigned mask, bool value, const Where& where) {
  return static_cast<unsigned>(meet(Meeting::ballot, mask, value ? 1 : 0, 0, where));
}

void place_shared(SharedPlace& place_of, std::size_t bytes, std::size_t alignment, const Where& where) {
  place_of = {block_serial, place(bytes, alignment, &where)};
}

void* dynamic_shared() { return shared_room + variables[0].begin; }

}  // namespace cuda_emulator
