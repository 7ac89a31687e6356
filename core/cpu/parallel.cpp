#include "core/cpu/parallel.h"

#include <fmt/core.h>
#include <omp.h>
#include <pthread.h>
#include <strings.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/cpu/openmp.h"
#include "core/error.h"

namespace tandem::cpu {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// A helper yields its core after it has run for this long. Shorter than the time for which Linux lets a
// thread run while others wait (2.8 ms, or 1.4 ms on few cores), so that it is rarely preempted within a
// share.
constexpr auto kTurn = microseconds(700);
// A longer yield shows that another process ran.
constexpr auto kTaken = microseconds(100);
// The cores count as shared for this long after such a yield.
constexpr auto kMemory = milliseconds(100);

// Spin time of a waiting thread before it sleeps. Within a step on idle cores few waits are longer. On busy
// cores longer spinning takes CPU time from the thread that is waited for.
constexpr auto kSpin = microseconds(50);

// OMP_WAIT_POLICY, if it is known.
std::string wait_policy() {
  const char* const given = std::getenv("OMP_WAIT_POLICY");
  for (const char* const known : {"passive", "active"})
    if (given && ::strcasecmp(given, known) == 0) return known;
  return {};
}

Clock::duration spin_time() {
  static const Clock::duration time = wait_policy() == "passive"  ? Clock::duration::zero()
                                      : wait_policy() == "active" ? Clock::duration(std::chrono::hours(1))
                                                                  : kSpin;
  return time;
}

// Stack size of the calling thread; SIZE_MAX if the system does not report it.
std::size_t stack_bytes() {
  std::size_t bytes = SIZE_MAX;
#if defined(__linux__)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return bytes;
  void* lowest = nullptr;
  if (pthread_attr_getstack(&attributes, &lowest, &bytes) != 0) bytes = SIZE_MAX;
  pthread_attr_destroy(&attributes);
#endif
  return bytes;
}

// New threads have the process's size (ulimit -s), as the first thread has.
void require_stack() {
  const std::size_t bytes = stack_bytes();
  require(bytes >= kLeastStack, "threads",
          "the calling thread has a stack of {} KiB, kernels need {}; raise it (ulimit -s)", bytes >> 10,
          kLeastStack >> 10);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// ---- sleeping on a word

void sleep_while(std::atomic<int>& word, int value) {
#if defined(__linux__)
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  word.wait(value);
#endif
}

void wake(std::atomic<int>& word) {
#if defined(__linux__)
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
  word.notify_all();
#endif
}

// A word that one thread changes and another waits for.
class Signal {
 public:
  int value() const { return word_.load(); }
  void set(int value) {
    word_.store(value);
    if (sleeper_.load()) wake(word_);
  }
  // Returns once the value is not `old`, and whether the thread slept. Spins for `spin` before.
  bool await_change(int old, Clock::duration spin) {
    if (spin > Clock::duration::zero()) {
      const auto start = Clock::now();
      do {
        for (int i = 0; i < 16; ++i) {
          if (value() != old) return false;
          pause();
        }
      } while (Clock::now() - start < spin);
    }
    sleeper_.store(true);
    while (value() == old) sleep_while(word_, old);
    sleeper_.store(false);
    return true;
  }

 private:
  std::atomic<int> word_{0};
  std::atomic<bool> sleeper_{false};
};

// Involuntary switches of the calling thread from its core to another thread, so far.
long preemptions() {
#if defined(__linux__)
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
#else
  return 0;
#endif
}

// ---- affinity

// CPUs of a thread. Empty if unknown.
struct Affinity {
#if defined(__linux__)
  cpu_set_t set{};
  bool known = false;
  int count() const { return known ? CPU_COUNT(&set) : 0; }
  void apply() const {
    if (known) ::sched_setaffinity(0, sizeof set, &set);
  }
  // The only CPU, in order, of thread `index`.
  Affinity only(int index) const {
    Affinity one;
    for (int cpu = 0; cpu < CPU_SETSIZE && known; ++cpu) {
      if (!CPU_ISSET(cpu, &set) || index-- > 0) continue;
      CPU_SET(cpu, &one.set);
      one.known = true;
      break;
    }
    return one;
  }
  // Of the calling thread; unknown if OpenMP's variables define places.
  static Affinity of_team() {
    Affinity a;
    a.known = omp_get_num_places() == 0 && ::sched_getaffinity(0, sizeof a.set, &a.set) == 0;
    return a;
  }
  // OpenMP's place for thread `index`; unknown unless its variables define places.
  static Affinity of_place(int index) {
    Affinity a;
    const int places = omp_get_num_places();
    if (places == 0) return a;
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(index % places)));
    omp_get_place_proc_ids(index % places, ids.data());
    for (const int id : ids)
      if (id < CPU_SETSIZE) CPU_SET(id, &a.set);
    a.known = true;
    return a;
  }
#else
  int count() const { return 0; }
  void apply() const {}
  Affinity only(int) const { return {}; }
  static Affinity of_team() { return {}; }
  static Affinity of_place(int) { return {}; }
#endif
};

// ---- loops

thread_local bool in_loop = false;

// Forks on the way to this process. A fork has none of the threads that its parent started before.
std::atomic<int> forks = 0;
[[maybe_unused]] const int kCountsForks = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });

constexpr std::size_t kLine = 64;  // bytes of a cache line

// Shares of a loop that belong to one thread. Others take them after their own.
struct alignas(kLine) Portion {
  std::atomic<Index> taken{0};
  Index first = 0, count = 0;
};

struct Loop {
  int threads;
  detail::ShareBody call;
  const void* body;
  Portion* portions;
  std::atomic<bool> failed{false};
  std::exception_ptr failure{};
};

void set_portions(Portion* portions, int threads, Index count) {
  for (Index t = 0; t < threads; ++t) {
    const Range own = part_of(count, t, threads);
    portions[t].first = own.first;
    portions[t].count = own.count();
    portions[t].taken.store(0, std::memory_order_relaxed);
  }
}

// What other processes leave of the cores, as a calling thread and its helpers find out.
class Sharing {
 public:
  // Whether another process ran on the core of a helper, or of the caller, within the last kMemory.
  bool of_helpers(Clock::time_point now) const { return now < read(helpers_until_); }
  // Cheap: without the time.
  bool was_ever() const { return helpers_until_.load(std::memory_order_relaxed) != 0; }
  bool of_caller(Clock::time_point now) const { return now < read(caller_until_); }
  void found_helper(Clock::time_point now) { write(helpers_until_, now + kMemory); }
  void found_caller(Clock::time_point now) { write(caller_until_, now + kMemory / 10); }

 private:
  using Time = std::atomic<Clock::rep>;
  static Clock::time_point read(const Time& time) {
    return Clock::time_point(Clock::duration(time.load(std::memory_order_relaxed)));
  }
  static void write(Time& time, Clock::time_point until) {
    time.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  }
  Time helpers_until_{0}, caller_until_{0};
};

// How often the calling thread lost its core to another one.
class Preemptions {
 public:
  bool is_due(Clock::time_point now) const { return now >= next_; }
  // Whether there were any since the last call.
  bool any(Clock::time_point now) {
    next_ = now + kTurn;
    const long before = std::exchange(seen_, preemptions());
    return before >= 0 && seen_ > before;
  }

 private:
  Clock::time_point next_{};
  long seen_ = -1;
};

// A helper's turns on its core. While only helpers share their cores, it yields after each turn; if the
// caller loses its core as well, yielding would only give time away.
class Turns {
 public:
  explicit Turns(Sharing& sharing) : sharing_(sharing) {}

  void begin() { ends_ = Clock::now() + kTurn; }
  // Whether to stop between shares, to yield.
  bool must_stop() const {
    // The end of the turn stands for the time, which is read only while cores are shared.
    return sharing_.of_helpers(ends_) && is_over(Clock::now()) && !sharing_.of_caller(ends_);
  }
  void end_if_over() {
    const auto now = Clock::now();
    if (!is_over(now)) return;
    if (sharing_.of_helpers(now) && sharing_.of_caller(now)) {
      if (preemptions_.any(now)) sharing_.found_helper(now);
      ends_ = now + kTurn;
      return;
    }
    std::this_thread::yield();
    const auto after = Clock::now();
    if (after - now > kTaken) sharing_.found_helper(after);
    ends_ = after + kTurn;
  }
  bool are_shared() const { return sharing_.of_helpers(ends_); }

 private:
  bool is_over(Clock::time_point now) const { return now >= ends_; }

  Sharing& sharing_;
  Preemptions preemptions_;
  Clock::time_point ends_ = Clock::now() + kTurn;
};

// One thread's shares of a loop.
class Turn final : public Shares {
 public:
  Turn(Loop& loop, int thread, const Turns* turns) : loop_(loop), turns_(turns) { thread_ = thread; }

  void run() {
    const bool outer = in_loop;
    in_loop = outer || loop_.threads > 1;
    try {
      loop_.call(loop_.body, *this);
    } catch (...) {
      if (!loop_.failed.exchange(true)) loop_.failure = std::current_exception();
    }
    in_loop = outer;
  }

  // Whether the thread stopped before all shares were taken, to yield its core.
  bool is_cut() const { return is_cut_; }

  bool take(Index& share) {
    if (loop_.failed.load(std::memory_order_relaxed)) return false;
    if (turns_ && turns_->must_stop()) {
      is_cut_ = true;
      return false;
    }
    for (; passed_ < loop_.threads; ++passed_) {
      Portion& portion = loop_.portions[(thread_ + passed_) % loop_.threads];
      const Index k = portion.taken.fetch_add(1, std::memory_order_relaxed);
      if (k >= portion.count) continue;
      share = portion.first + k;
      return true;
    }
    return false;
  }

 private:
  Loop& loop_;
  const Turns* turns_;
  int passed_ = 0;  // portions that are used up
  bool is_cut_ = false;
};

// Helper threads of one calling thread.
class Helpers {
 public:
  Helpers() = default;
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  ~Helpers() {
    for (const auto& helper : helpers_) {
      helper->calls.set(kStop);
      if (exist())
        helper->thread.join();
      else
        helper->thread.detach();
    }
  }

  // Whether the helpers run in this process.
  bool exist() const { return forks_ == forks; }

  void run(Loop& loop, Index count) {
    start(loop.threads);
    set_portions(portions_.data(), loop.threads, count);
    loop.portions = portions_.data();
    open_.store(&loop);
    number_ = number_ % kMostNumber + 1;
    for (int t = 1; t < loop.threads; ++t) helper(t).calls.set(number_);
    const bool stays = are_shared() && is_crowded(loop.threads);
    if (stays) mask_.only(0).apply();
    Turn(loop, 0, nullptr).run();
    open_.store(nullptr);
    // A helper that was late for an earlier loop may look at this one, even if it is not to take part.
    // Helpers enter only while a loop is open, so those outside now need not be waited for.
    for (const auto& each : helpers_)
      if (each->inside.value() != 0) each->inside.await_change(1, spin_of(loop.threads));
    if (stays) mask_.apply();
    if (loop.failure) std::rethrow_exception(loop.failure);
  }

 private:
  static constexpr int kStop = -1, kMostNumber = 1 << 30;

  struct alignas(kLine) Helper {
    Signal calls;                  // number of the latest loop, or kStop
    alignas(kLine) Signal inside;  // 1 while the helper may access a loop
    std::thread thread;
  };

  Helper& helper(int thread) { return *helpers_[static_cast<std::size_t>(thread - 1)]; }

  // Threads that share cores with each other do not spin.
  Clock::duration spin_of(int threads) const {
    return cpus_ > 0 && threads > cpus_ ? Clock::duration::zero() : Clock::duration(spin_time());
  }

  // Whether a team of this size occupies all cores.
  bool is_crowded(int threads) const { return cpus_ == threads; }

  // Whether other processes use the helpers' cores. Finds out about the caller's.
  bool are_shared() {
    if (!sharing_.was_ever()) return false;
    const auto now = Clock::now();
    if (!sharing_.of_helpers(now)) return false;
    if (preemptions_.is_due(now) && preemptions_.any(now)) sharing_.found_caller(now);
    return true;
  }

  void start(int threads) {
    if (static_cast<int>(helpers_.size()) + 1 < threads) require_stack();
    if (portions_.size() < static_cast<std::size_t>(threads))
      portions_ = std::vector<Portion>(static_cast<std::size_t>(threads));
    for (int thread = static_cast<int>(helpers_.size()) + 1; thread < threads; ++thread) {
      auto added = std::make_unique<Helper>();
      try {
        added->thread = std::thread([this, &self = *added, thread] { serve(self, thread); });
      } catch (const std::system_error& error) {
        throw UserError("threads",
                        fmt::format("thread {} of {} cannot start: {}; lower threads, or raise the "
                                    "limits of the system (ulimit -u)",
                                    thread + 1, threads, error.what()));
      }
      helpers_.push_back(std::move(added));
    }
  }

  void serve(Helper& self, int thread) {
    Affinity::of_place(thread).apply();
    Turns turns(sharing_);
    bool stays = false;
    for (int seen = 0, team = 1;;) {
      if (self.calls.await_change(seen, spin_of(team))) turns.begin();
      seen = self.calls.value();
      if (seen == kStop) return;
      while (take_part(self, thread, turns, team)) {
      }
      if (const bool stay = turns.are_shared() && is_crowded(team); stay != stays) {
        (stay ? mask_.only(thread) : mask_).apply();
        stays = stay;
      }
    }
  }

  // Takes shares of the open loop. Returns whether some may be left.
  bool take_part(Helper& self, int thread, Turns& turns, int& team) {
    bool is_cut = false;
    self.inside.set(1);
    if (Loop* const loop = open_.load(); loop && thread < loop->threads) {
      team = loop->threads;
      Turn turn(*loop, thread, &turns);
      turn.run();
      is_cut = turn.is_cut();
    }
    self.inside.set(0);
    turns.end_if_over();
    return is_cut;
  }

  const Affinity mask_ = Affinity::of_team();
  const int cpus_ = mask_.count();  // 0 if unknown
  const int forks_ = forks;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::vector<Portion> portions_;
  std::atomic<Loop*> open_{nullptr};
  Sharing sharing_;
  Preemptions preemptions_;  // of the caller
  int number_ = 0;
};

}  // namespace

bool Shares::next(Index& share) { return static_cast<Turn*>(this)->take(share); }

bool is_in_loop() { return in_loop; }

std::string waiting() {
  const std::string policy = wait_policy();
  return policy.empty() ? fmt::format("spin {} us, then sleep", kSpin.count()) : "OMP_WAIT_POLICY=" + policy;
}

void detail::run_shares(int threads, Index count, ShareBody call, const void* body) {
  if (count <= 0) return;
  Loop loop{.threads = threads, .call = call, .body = body};
  static thread_local Helpers helpers;
  if (threads == 1 || count == 1 || in_loop || !helpers.exist()) {
    Portion all;
    set_portions(&all, 1, count);
    loop.threads = 1;
    loop.portions = &all;
    Turn(loop, 0, nullptr).run();
    if (loop.failure) std::rethrow_exception(loop.failure);
    return;
  }
  helpers.run(loop, count);
}

}  // namespace tandem::cpu
